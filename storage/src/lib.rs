//! All that survives a restart: the database, the files of the data directory, settings, snapshots.
//!
//! Writes go only through the [`Journal`]: one writer, group commit, and events go out only after what they tell is
//! committed. Reads go through [`Store`]. This crate knows nothing of actors; what it publishes to is a [`Sink`].
//!
//! Start at [`journal`] for what a command is, [`store`] for what can be read, [`data_dir`] for who owns it all.

pub mod config;
pub mod data_dir;
pub mod database;
pub mod error;
pub mod frame;
pub mod git;
pub mod journal;
pub mod markdown;
pub mod outputs;
pub mod places;
pub mod project;
pub mod skill;
pub mod snapshot;
pub mod stamps;
pub mod store;
pub mod walk;

pub use data_dir::DataDir;
pub use database::Database;
pub use error::StorageError;
pub use frame::{Body, Delta, Frame, Origin, Properties, Sink};
pub use journal::{Ack, Change, Epoch, Fence, Journal, JournalError, Record, Room};
pub use places::Places;
pub use store::Store;
