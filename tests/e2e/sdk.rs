//! The official JavaScript client, run against the service. The checks are in `tests/sdk`.

use std::process::Command;

use crate::world::World;

#[tokio::test]
async fn the_official_client_works_with_the_service() {
    let world = World::start().await;
    let (url, project) = (world.service.base_url(), world.project.dir().to_owned());
    let run = move || {
        let dir = support::npm::installed("sdk");
        Command::new("node").arg("check.mjs").arg(url).arg(project).current_dir(dir).output().expect("node")
    };
    let ran = tokio::task::spawn_blocking(run).await.expect("a task");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    // As many lines as there are checks, so that a script that ends early is seen.
    assert!(out.lines().filter(|line| line.starts_with("PASS ")).count() >= 18, "{out}");
}
