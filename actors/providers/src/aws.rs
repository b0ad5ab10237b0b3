//! AWS's keys, and requests signed with them.
//!
//! | keys | |
//! |---|---|
//! | options | `accessKeyId`, `secretAccessKey`, `sessionToken` |
//! | options | `profile` |
//! | environment | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` |
//! | environment | `AWS_PROFILE`, else `default` |
//!
//! The first that has both keys counts. A profile is looked for in the files AWS's own tools read
//! (`AWS_SHARED_CREDENTIALS_FILE`, `AWS_CONFIG_FILE`, else those in `~/.aws`); one that logs in or takes on a role has
//! no keys there. Source: <https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html>.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign as signature};
use aws_sigv4::sign::v4::SigningParams;
use configparser::ini::Ini;
use futures::FutureExt;
use futures::future::BoxFuture;
use sse::SseRequest;

use crate::ambient::Variables;
use crate::credential::{Access, Credential, Secret, SigningKeys};
use crate::endpoint::{Endpoint, set};
use crate::error::{ErrorClass, ProviderError};
use crate::vendors::{MANTLE, region};

/// Where keys are looked for.
#[derive(Clone)]
pub(crate) struct Keys {
    of_options: Option<SigningKeys>,
    profile_of_options: Option<String>,
    of_environment: Option<SigningKeys>,
    profile: String,
    /// The one for keys, then the one for settings, which may have keys too.
    files: [Option<PathBuf>; 2],
}

impl Keys {
    pub(crate) fn new(endpoint: &Endpoint, variables: Variables<'_>) -> Self {
        let option = |name: &str| endpoint.setting(name).map(str::to_owned);
        let file = |variable: &str, name: &str| {
            let home = || Some(PathBuf::from(variables("HOME")?).join(".aws").join(name));
            variables(variable).map(PathBuf::from).or_else(home)
        };
        Self {
            of_options: pair(option("accessKeyId"), option("secretAccessKey"), option("sessionToken")),
            profile_of_options: option("profile"),
            of_environment: of_environment(variables),
            profile: variables("AWS_PROFILE").unwrap_or_else(|| "default".into()),
            files: [file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), file("AWS_CONFIG_FILE", "config")],
        }
    }

    /// Returns the region of the profile. Blocks.
    pub(crate) fn region(&self) -> Option<String> {
        let profile = self.profile_of_options.as_ref().unwrap_or(&self.profile);
        self.files().iter().find_map(|file| value(file, profile, "region"))
    }

    /// Returns the keys as they are now. Blocks.
    fn find(&self) -> Option<SigningKeys> {
        let of_profile = |profile: &str| {
            self.files().iter().find_map(|file| {
                let value = |name: &str| value(file, profile, name);
                pair(value("aws_access_key_id"), value("aws_secret_access_key"), value("aws_session_token"))
            })
        };
        match (&self.of_options, &self.profile_of_options) {
            (Some(keys), _) => Some(keys.clone()),
            (None, Some(profile)) => of_profile(profile),
            (None, None) => self.of_environment.clone().or_else(|| of_profile(&self.profile)),
        }
    }

    async fn now(&self) -> Option<SigningKeys> {
        let keys = self.clone();
        tokio::task::spawn_blocking(move || keys.find()).await.ok().flatten()
    }

    fn files(&self) -> Vec<Ini> {
        let read = |path: &PathBuf| {
            let mut file = Ini::new_cs();
            file.load(path).ok().map(|_| file)
        };
        self.files.iter().flatten().filter_map(read).collect()
    }
}

impl Credential for Keys {
    fn access(&self) -> BoxFuture<'_, Result<Access, ProviderError>> {
        async {
            let keys = self.now().await.ok_or_else(|| {
                let text = "no keys for AWS were found; set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and \
                            AWS_SECRET_ACCESS_KEY, or give the profile keys in ~/.aws/credentials";
                ProviderError::new(ErrorClass::Auth, text)
            })?;
            Ok(Access { secret: Secret::Signing(keys), ..Access::default() })
        }
        .boxed()
    }

    /// Keys that run out are replaced in the file by whoever made them.
    fn refused<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, bool> {
        async { self.now().await.is_some_and(|keys| access.secret != Secret::Signing(keys)) }.boxed()
    }
}

/// Returns the keys in the environment.
pub(crate) fn of_environment(variables: Variables<'_>) -> Option<SigningKeys> {
    pair(variables("AWS_ACCESS_KEY_ID"), variables("AWS_SECRET_ACCESS_KEY"), variables("AWS_SESSION_TOKEN"))
}

fn pair(id: Option<String>, secret: Option<String>, session_token: Option<String>) -> Option<SigningKeys> {
    Some(SigningKeys { id: id?, secret: secret?, session_token })
}

/// Sections are `[name]`, in the file for settings also `[profile name]`.
fn value(file: &Ini, profile: &str, name: &str) -> Option<String> {
    let of = |section: &str| file.get(section, name).filter(|value| !value.is_empty());
    of(profile).or_else(|| of(&format!("profile {profile}")))
}

/// Signs a request as it is now. Only what no proxy changes is signed of its headers.
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html>.
pub(crate) fn sign(
    request: &mut SseRequest,
    keys: &SigningKeys,
    endpoint: &Endpoint,
    now_ms: u64,
) -> Result<(), ProviderError> {
    let bad = |error: &dyn std::fmt::Display| {
        ProviderError::new(ErrorClass::BadRequest, format!("the request can't be signed: {error}"))
    };
    let identity =
        Credentials::new(keys.id.as_str(), keys.secret.as_str(), keys.session_token.clone(), None, "troupe").into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(region(endpoint))
        .name(if endpoint.npm == MANTLE { "bedrock-mantle" } else { "bedrock" })
        .time(UNIX_EPOCH + Duration::from_millis(now_ms))
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| bad(&error))?
        .into();
    let body = request.body.clone().unwrap_or_default();
    let kind = request.headers.get("content-type").and_then(|kind| kind.to_str().ok());
    let headers = kind.map(|kind| ("content-type", kind)).into_iter();
    let signable =
        SignableRequest::new(request.method.as_str(), request.url.as_str(), headers, SignableBody::Bytes(&body))
            .map_err(|error| bad(&error))?;
    let (signed, _) = signature(signable, &params).map_err(|error| bad(&error))?.into_parts();
    for (name, value) in signed.headers() {
        set(&mut request.headers, name, value).ok_or_else(|| bad(&format_args!("{name} fits in no header")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::ambient::add_ambient;
    use crate::testing::options;
    use crate::vendors::BEDROCK;

    const CREDENTIALS: &str = "# mine\n[default]\naws_access_key_id = DEFAULT\naws_secret_access_key = a/b+c=\n\n\
                               [work]\naws_access_key_id=WORK\naws_secret_access_key=s\naws_session_token=t\n";
    const CONFIG: &str = "[default]\nregion = eu-west-3\n[profile work]\nregion = ap-south-1\n\
                          [profile sso]\nsso_session = x\n";

    struct Machine {
        home: tempfile::TempDir,
        variables: HashMap<&'static str, String>,
    }

    impl Machine {
        fn new(variables: &[(&'static str, &str)]) -> Self {
            let home = tempfile::tempdir().expect("a directory");
            std::fs::create_dir(home.path().join(".aws")).expect("a directory");
            let mut variables: HashMap<_, _> =
                variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            variables.insert("HOME", home.path().to_string_lossy().into_owned());
            let machine = Self { home, variables };
            machine.write("credentials", CREDENTIALS);
            machine.write("config", CONFIG);
            machine
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.home.path().join(".aws").join(name), text).expect("a file");
        }

        fn endpoint(&self, own: serde_json::Value) -> Endpoint {
            let mut endpoint = Endpoint::new("p", BEDROCK, "");
            endpoint.options = options(own);
            add_ambient(&mut endpoint, &|name| self.variables.get(name).cloned());
            endpoint
        }

        /// The id of the keys, and the region.
        async fn found(&self, own: serde_json::Value) -> (String, String) {
            let endpoint = self.endpoint(own);
            let id = match endpoint.access().await {
                Ok(Access { secret: Secret::Signing(keys), .. }) => keys.id,
                Ok(other) => format!("{other:?}"),
                Err(error) => {
                    assert_eq!(error.class(), ErrorClass::Auth);
                    "none".into()
                }
            };
            (id, region(&endpoint).to_owned())
        }
    }

    #[tokio::test]
    async fn keys_and_regions_come_from_the_first_place_that_has_them() {
        let own = json!({ "accessKeyId": "OWN", "secretAccessKey": "s", "region": "us-west-2" });
        let env = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "eu-north-1")];
        let half = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_PROFILE", "work"), ("AWS_DEFAULT_REGION", "eu-south-1")];
        for (variables, options, id, region) in [
            (&env[..], own, "OWN", "us-west-2"),
            (&env, json!({ "profile": "work" }), "WORK", "eu-north-1"),
            (&env, json!({}), "ENV", "eu-north-1"),
            (&half, json!({}), "WORK", "eu-south-1"),
            (&[("AWS_PROFILE", "work")], json!({}), "WORK", "ap-south-1"),
            (&[], json!({}), "DEFAULT", "eu-west-3"),
            (&[], json!({ "profile": "sso" }), "none", "us-east-1"),
        ] {
            let found = Machine::new(variables).found(options.clone()).await;
            assert_eq!(found, (id.to_owned(), region.to_owned()), "{variables:?} {options}");
        }
        let bare = Machine { home: tempfile::tempdir().expect("a directory"), variables: HashMap::new() };
        assert_eq!(bare.found(json!({})).await, ("none".into(), "us-east-1".into()));
    }

    #[tokio::test]
    async fn keys_that_are_refused_are_read_again_and_a_key_of_the_config_goes_before_them() {
        let machine = Machine::new(&[("AWS_PROFILE", "work")]);
        let endpoint = machine.endpoint(json!({}));
        let credential = endpoint.credential.clone().expect("a credential");
        let access = credential.access().await.expect("keys");
        let want = SigningKeys { id: "WORK".into(), secret: "s".into(), session_token: Some("t".into()) };
        assert_eq!(access.secret, Secret::Signing(want));
        assert!(!credential.refused(&access).await);
        machine.write("credentials", &CREDENTIALS.replace("WORK", "NEWER"));
        assert!(credential.refused(&access).await);

        let mut keyed = Endpoint::new("p", BEDROCK, "");
        keyed.api_key = Some("k".into());
        add_ambient(&mut keyed, &|name| machine.variables.get(name).cloned());
        assert!(keyed.credential.is_none());
    }
}
