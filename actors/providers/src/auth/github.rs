//! GitHub Copilot: a device login at GitHub, whose token Copilot takes as it is.
//!
//! Source: <https://docs.github.com/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps#device-flow>, and OpenCode
//! 1.18, whose registered app it is: its tokens are good for both programs.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;

use super::device::{self, Answer};
use super::http::{Body, Http, number, refusal, text};
use super::login::Login;
use super::{AuthError, Authorization, Vendors};
use crate::credential::Access;

pub(super) const PROVIDER: &str = "github-copilot";
pub(super) const DEPLOYMENT: &str = "deploymentType";
pub(super) const ENTERPRISE: &str = "enterprise";
pub(super) const ENTERPRISE_URL: &str = "enterpriseUrl";
const CLIENT_ID: &str = "Ov23li8tweQw6odWQebz";
const SCOPE: &str = "read:user";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A login that waits for its code to be typed.
pub(super) struct Device {
    base: String,
    code: String,
    interval: Duration,
    patience: Duration,
    margin: Duration,
    /// The domain of a company's own GitHub.
    enterprise: Option<String>,
}

impl Device {
    pub(super) async fn begin(
        vendors: &Vendors,
        http: &Http,
        inputs: &HashMap<String, String>,
    ) -> Result<(Self, Authorization), AuthError> {
        let enterprise = enterprise(inputs)?;
        let base = enterprise.as_ref().map_or_else(|| vendors.github.clone(), |domain| format!("https://{domain}"));
        let asked = json!({ "client_id": CLIENT_ID, "scope": SCOPE });
        let (status, answer) = http.post(&format!("{base}/login/device/code"), Body::Json(&asked)).await?;
        let (Some(code), Some(user_code), Some(url)) =
            (text(&answer, "device_code"), text(&answer, "user_code"), text(&answer, "verification_uri"))
        else {
            return Err(refusal(status, &answer));
        };
        let seconds = |name: &str| number(&answer, name).map(Duration::from_secs);
        let device = Self {
            base,
            code: code.to_owned(),
            interval: seconds("interval").unwrap_or(Duration::from_secs(5)),
            patience: seconds("expires_in").unwrap_or(device::PATIENCE),
            margin: vendors.margin,
            enterprise,
        };
        Ok((device, Authorization { url: url.to_owned(), instructions: format!("Enter code: {user_code}") }))
    }

    pub(super) async fn finish(self, http: &Http) -> Result<Login, AuthError> {
        let url = format!("{}/login/oauth/access_token", self.base);
        let asked = json!({ "client_id": CLIENT_ID, "device_code": self.code, "grant_type": GRANT });
        let token = device::wait(self.interval, self.margin, self.patience, || async {
            let (status, answer) = http.post(&url, Body::Json(&asked)).await?;
            if let Some(token) = text(&answer, "access_token") {
                return Ok(Answer::Done(token.to_owned()));
            }
            match text(&answer, "error") {
                Some("authorization_pending") => Ok(Answer::Pending),
                Some("slow_down") => Ok(Answer::SlowDown(number(&answer, "interval").map(Duration::from_secs))),
                _ => Err(refusal(status, &answer)),
            }
        })
        .await?;
        Ok(Login::OAuth {
            refresh: token.clone(),
            access: token,
            expires: 0,
            account_id: None,
            enterprise_url: self.enterprise,
        })
    }
}

/// Returns the domain of a company's own GitHub, if it is one.
fn enterprise(inputs: &HashMap<String, String>) -> Result<Option<String>, AuthError> {
    let given = inputs.get(ENTERPRISE_URL).map(|url| url.trim()).filter(|url| !url.is_empty());
    if inputs.get(DEPLOYMENT).is_none_or(|kind| kind != ENTERPRISE) && given.is_none() {
        return Ok(None);
    }
    let bad = || AuthError::BadInput(format!("`{ENTERPRISE_URL}` must be a domain, such as company.ghe.com"));
    let given = given.ok_or_else(bad)?;
    let url = if given.contains("://") { given.to_owned() } else { format!("https://{given}") };
    let url = url::Url::parse(&url).map_err(|_| bad())?;
    let domain = url.domain().filter(|domain| domain.contains('.')).ok_or_else(bad)?;
    Ok(Some(domain.to_owned()).filter(|domain| domain != "github.com"))
}

/// Returns how a login is used.
pub(super) fn access(token: &str, enterprise: Option<&str>) -> Access {
    Access { base_url: enterprise.map(|domain| format!("https://copilot-api.{domain}")), ..Access::bearer(token) }
}
