//! A name that is remembered is never an old one.

use crate::analysis::Observed;
use crate::analysis::tests::Eyes;
use crate::keys::{Dictionary, KeyBook};
use crate::model::testing::{World, key};

impl Eyes {
    /// The label of the only hold's first name, in what rules and in what reports are given.
    fn label(&mut self, world: &mut World) -> Option<String> {
        let observed = self.see(world.poll());
        let [hold] = observed.holds.as_slice() else { panic!("one hold is expected: {:?}", observed.holds) };
        let label = hold.names.first().map(|name| name.label.clone());
        assert_eq!(label, observed.reported_key(0).names.first().map(|name| name.label.clone()));
        label
    }
}

fn book(name: &str) -> KeyBook {
    let text = format!("[[key]]\nname = \"{name}\"\nkey = 1\n");
    KeyBook::new(&[Dictionary::parse("keys.toml", &text).unwrap()])
}

#[test]
fn a_dictionary_that_is_read_anew_renames_what_is_held() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").hold(10, key(1)).to(5.0);
    assert_eq!(eyes.label(&mut world), None);
    eyes.book = book("one");
    assert_eq!(eyes.label(world.to(10.0)).as_deref(), Some("one"));
    eyes.book = book("two");
    assert_eq!(eyes.label(world.to(15.0)).as_deref(), Some("two"));
    eyes.book = KeyBook::default();
    assert_eq!(eyes.label(world.to(20.0)), None);
}

#[test]
fn what_a_session_says_of_itself_counts_at_once() {
    // 4004 is Marten's if the holder says so.
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").hold(10, key(4004)).to(5.0);
    assert_eq!(eyes.label(&mut world), None);
    world.to(10.0).backend(10).application = "marten".into();
    assert_eq!(eyes.label(&mut world).as_deref(), Some("Marten"));
    world.to(15.0).backend(10).application = "api".into();
    assert_eq!(eyes.label(&mut world), None);
    world.to(20.0).backend(10).user = Some("marten".into());
    assert_eq!(eyes.label(&mut world).as_deref(), Some("Marten"));
    world.to(25.0).backend(10).user = Some("app".into());
    world.to(30.0).backend(10).query = Some("SELECT 1 -- marten".into());
    assert_eq!(eyes.label(&mut world).as_deref(), Some("Marten"));
}

#[test]
fn a_database_that_is_renamed_has_its_new_name() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").hold(10, key(1)).to(5.0);
    let database = |observed: &Observed| observed.reported_key(0).database.clone();
    assert_eq!(database(&eyes.see(world.poll())).as_deref(), Some("app"));
    for (_, name) in &mut world.to(10.0).snapshot.server.databases {
        *name = "shop".into();
    }
    assert_eq!(database(&eyes.see(world.poll())).as_deref(), Some("shop"));
}

#[test]
fn a_key_without_a_name_is_written_once_for_all_polls() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").hold(10, key(1)).to(5.0);
    let first = eyes.see(world.poll());
    // Another statement may mean another name, and here it does not.
    let second = eyes.see(world.to(10.0).run(10, "SELECT 2").to(15.0).poll());
    assert!(first.reported_key(0).is_same(&second.reported_key(0)));
}
