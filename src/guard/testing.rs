//! A lock that was left behind, made by hand, for the unit tests of what is done with it.

use crate::analysis::report::LeftBehind;
use crate::guard::tests::Scene;

/// One lock, as a watch over a session that never unlocks finds it.
pub(crate) fn left() -> LeftBehind {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 612001);
    scene.polls(3);
    scene.finish().left.remove(0)
}
