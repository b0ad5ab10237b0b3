//! Two random words under which a person remembers a session.

use rand::seq::IndexedRandom;

const ADJECTIVES: [&str; 32] = [
    "amber", "brave", "bright", "calm", "clever", "cosmic", "crisp", "curious", "eager", "early", "gentle", "golden",
    "happy", "hidden", "jolly", "keen", "kind", "lively", "lucky", "mellow", "misty", "nimble", "patient", "proud",
    "quick", "quiet", "shiny", "silent", "steady", "sunny", "swift", "witty",
];
const NOUNS: [&str; 32] = [
    "badger", "beacon", "brook", "cactus", "canyon", "comet", "coral", "eagle", "ember", "falcon", "forest", "garden",
    "harbor", "heron", "island", "juniper", "lagoon", "lantern", "meadow", "mountain", "nebula", "orchid", "otter",
    "panda", "planet", "pixel", "river", "rocket", "squid", "star", "tiger", "willow",
];

/// Returns a new slug: `adjective-noun`.
pub fn slug() -> String {
    let mut rng = rand::rng();
    let adjective = ADJECTIVES.choose(&mut rng).copied().unwrap_or("plain");
    let noun = NOUNS.choose(&mut rng).copied().unwrap_or("session");
    format!("{adjective}-{noun}")
}
