//! A login as adapters use it: asked for each request, renewed once for all who ask.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::login::Login;
use super::{AuthError, Shared, github, openai};
use crate::credential::{Access, Credential, Secret};
use crate::error::{ErrorClass, ProviderError};

/// A token is renewed when it has no longer than this left, in ms.
const MARGIN: u64 = 30_000;

/// Returns the credential of a provider that has logins of its own.
pub(super) fn of(shared: &Arc<Shared>, provider: &str) -> Option<Arc<dyn Credential>> {
    let vendor = match provider {
        openai::PROVIDER => Vendor::OpenAi,
        github::PROVIDER => Vendor::GitHub,
        _ => return None,
    };
    Some(Arc::new(Stored { shared: shared.clone(), provider: provider.to_owned(), vendor }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vendor {
    OpenAi,
    GitHub,
}

struct Stored {
    shared: Arc<Shared>,
    provider: String,
    vendor: Vendor,
}

impl Stored {
    /// Returns how the kept login is used, renewed where its token has run out or is the `refused` one.
    async fn current(&self, refused: Option<&Access>) -> Result<Access, AuthError> {
        let needed = || AuthError::LoginNeeded { provider: self.provider.clone() };
        let login = self.shared.files.get(&self.provider).await?.ok_or_else(needed)?;
        if self.holds(&login, refused) {
            return Ok(self.access(&login));
        }
        let _alone = self.shared.renewing(&self.provider).lock_owned().await;
        // Somebody else may have been faster.
        let login = self.shared.files.get(&self.provider).await?.ok_or_else(needed)?;
        if self.holds(&login, refused) {
            return Ok(self.access(&login));
        }
        let Login::OAuth { refresh, account_id, .. } = &login else { return Err(needed()) };
        if self.vendor != Vendor::OpenAi {
            return Err(needed());
        }
        let Shared { vendors, http, clock, files, .. } = &*self.shared;
        let next = openai::renew(vendors, http, &**clock, refresh, account_id.as_deref()).await?;
        files.set(&self.provider, next.clone()).await?;
        tracing::info!(provider = self.provider, "a login was renewed");
        Ok(self.access(&next))
    }

    /// Whether a login may be used as it is.
    fn holds(&self, login: &Login, refused: Option<&Access>) -> bool {
        let is_refused = refused.is_some_and(|refused| refused.secret == self.access(login).secret);
        let has_run_out = match login {
            Login::OAuth { expires, .. } => {
                *expires != 0 && *expires <= self.shared.clock.now_ms().saturating_add(MARGIN)
            }
            _ => false,
        };
        !is_refused && !has_run_out
    }

    fn access(&self, login: &Login) -> Access {
        match (login, self.vendor) {
            (Login::OAuth { access, account_id, .. }, Vendor::OpenAi) => openai::access(access, account_id.as_deref()),
            (Login::OAuth { refresh, enterprise_url, .. }, Vendor::GitHub) => {
                github::access(refresh, enterprise_url.as_deref())
            }
            (Login::Api { key, .. }, _) => Access::key(key),
            (Login::WellKnown { token, .. }, _) => Access { secret: Secret::Key(token.clone()), ..Access::default() },
        }
    }
}

impl Credential for Stored {
    fn access(&self) -> BoxFuture<'_, Result<Access, ProviderError>> {
        self.current(None).map(|access| access.map_err(failed)).boxed()
    }

    fn refused<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, bool> {
        async move {
            match self.current(Some(access)).await {
                Ok(_) => true,
                Err(error) => {
                    tracing::warn!(%error, provider = self.provider, "a login was refused");
                    false
                }
            }
        }
        .boxed()
    }
}

/// A vendor that can't be reached may be later; the rest needs a person.
fn failed(error: AuthError) -> ProviderError {
    let class = match error {
        AuthError::Unreachable { .. } => ErrorClass::Retryable,
        _ => ErrorClass::Auth,
    };
    ProviderError::new(class, error.to_string())
}
