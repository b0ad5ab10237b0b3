//! Troupe as its users meet it: the real executable over HTTP, with a scripted model. One file an area.

mod world;
mod turn;
