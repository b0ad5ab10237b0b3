//! A part of the end-to-end tests.

mod world;
mod turn;
