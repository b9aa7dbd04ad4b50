//! `millrace group`: which groups there are, who is in them, and how far behind they are.

pub mod committed;
mod describe;
mod list;

use crate::args::GroupCommand;
use crate::cluster::Cluster;
use crate::outcome::Failure;
use crate::topic::Style;

/// Carries out a command on groups.
///
/// # Errors
/// When the cluster refuses or cannot be asked.
pub async fn run(command: &GroupCommand, style: Style) -> Result<(), Failure> {
    match command {
        GroupCommand::List { at } => {
            let mut cluster = Cluster::connect(&at.bootstrap).await?;
            list::run(&mut cluster, style).await
        }
        GroupCommand::Describe { at, groups } => {
            let mut cluster = Cluster::connect(&at.bootstrap).await?;
            describe::run(&mut cluster, groups, style).await
        }
    }
}
