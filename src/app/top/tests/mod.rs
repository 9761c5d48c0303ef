//! The screen without a terminal: states after events, whole screens, and how long a frame takes.

mod reducer;
mod screens;
mod speed;
mod tree;
mod world;
