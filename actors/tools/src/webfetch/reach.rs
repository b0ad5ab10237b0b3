//! Whether an address is on the public web, on the person's network or on their machine. A page must not be able to
//! send the model to what only the person can reach, nor may a name lead elsewhere when it is looked up again: what was
//! judged is what is connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use protocol::Action;
use protocol::config::Config;
use reqwest::Response;
use reqwest::header::LOCATION;
use url::{Host, Url};

use super::WebFetch;
use crate::error::ToolError;

/// How long a name may take to be looked up. One that takes longer is asked for.
const LOOKUP: Duration = Duration::from_secs(5);

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// To the public web.
    Public,
    /// To this machine, by its plain name or number: what the person develops, most often.
    Own,
    /// To the person's network, or to this machine by another name.
    Private,
}

/// An address and where it leads.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) reach: Reach,
    /// What its name stands for: it is connected to these and no others. None where it has no name, where the name is
    /// this machine's own, or where looking it up took too long and a person decides.
    pub(super) addresses: Option<Vec<SocketAddr>>,
}

/// Returns where an address leads. A name that nobody knows leads nowhere, which the fetch will tell.
pub(super) async fn of(url: Url) -> Target {
    let (reach, addresses) = match url.host() {
        Some(Host::Ipv4(address)) => (of_literal(address.into()), None),
        Some(Host::Ipv6(address)) => (of_literal(address.into()), None),
        Some(Host::Domain(domain)) => of_name(domain, url.port_or_known_default().unwrap_or(80)).await,
        None => (Reach::Private, None),
    };
    Target { url, reach, addresses }
}

async fn of_name(name: &str, port: u16) -> (Reach, Option<Vec<SocketAddr>>) {
    let domain = name.trim_end_matches('.').to_ascii_lowercase();
    if domain == "localhost" || domain.ends_with(".localhost") {
        return (Reach::Own, None);
    }
    match tokio::time::timeout(LOOKUP, tokio::net::lookup_host((name, port))).await {
        Ok(Ok(found)) => {
            let found: Vec<SocketAddr> = found.collect();
            let is_public = found.iter().all(|address| is_public(address.ip()));
            (if is_public { Reach::Public } else { Reach::Private }, Some(found))
        }
        Ok(Err(_)) => (Reach::Public, Some(Vec::new())),
        Err(_) => (Reach::Private, None),
    }
}

fn of_literal(address: IpAddr) -> Reach {
    match address.to_canonical() {
        address if address.is_loopback() => Reach::Own,
        address if is_public(address) => Reach::Public,
        _ => Reach::Private,
    }
}

fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            // 100.64/10 is shared between a provider's customers, 198.18/15 is for benchmarks, 240/4 is reserved.
            let is_special =
                a == 0 || (a == 100 && (64..128).contains(&b)) || (a == 198 && (b == 18 || b == 19)) || a >= 240;
            !(is_special || v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast())
        }
        IpAddr::V6(v6) => {
            let [first, ..] = v6.segments();
            let is_special = (first & 0xfe00) == 0xfc00 || (first & 0xffc0) == 0xfe80 || v6 == Ipv6Addr::UNSPECIFIED;
            let inner = translated(v6);
            !(is_special || v6.is_loopback() || v6.is_multicast() || inner.is_some_and(|v4| !is_public(v4.into())))
        }
    }
}

/// The IPv4 address that a translator (64:ff9b::/96) or a tunnel (2002::/16) reaches for an IPv6 address.
fn translated(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

/// Returns whether a rule of the config allows the address by its host, so that there is nothing left to ask.
pub(super) fn is_named(config: &Config, url: &Url) -> bool {
    let origin = url.origin().ascii_serialization();
    let rules: Vec<_> = config.permission.iter().flat_map(|permission| permission.rules()).collect();
    rules.iter().any(|rule| {
        let named = rule.pattern.split('*').next().unwrap_or_default();
        rule.permission == <WebFetch as crate::tool::Tool>::ID
            && rule.action == Action::Allow
            && named.starts_with(&origin)
    })
}

/// Returns where an answer redirects to; none when it doesn't.
pub(super) fn next(url: &Url, response: &Response) -> Result<Option<Url>, ToolError> {
    if !response.status().is_redirection() {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    let location = String::from_utf8_lossy(location.as_bytes());
    // Redirects on one host were followed, so the answer may be of another path.
    let next = response.url().join(&location).ok().filter(|next| matches!(next.scheme(), "http" | "https"));
    let bad =
        || ToolError::failed(format!("{} leads to {location:?}, which can't be fetched.", super::body::shown(url)));
    next.map(Some).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    async fn reach(url: &str) -> Reach {
        of(Url::parse(url).unwrap()).await.reach
    }

    #[tokio::test]
    async fn addresses_are_told_apart_however_they_are_written() {
        for own in
            ["http://127.0.0.1:1/x", "http://localhost/", "http://2130706433/", "http://[::1]/", "http://0x7f.1/"]
        {
            assert_eq!(reach(own).await, Reach::Own, "{own}");
        }
        for private in [
            "http://10.1.2.3/",
            "http://192.168.0.1/",
            "http://172.20.0.1/",
            "http://169.254.169.254/latest",
            "http://0.0.0.0/",
            "http://100.64.0.1/",
            "http://[fd00::1]/",
            "http://[fe80::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[64:ff9b::10.0.0.1]/",
            "http://[2002:0a00:0001::1]/",
        ] {
            assert_eq!(reach(private).await, Reach::Private, "{private}");
        }
        for public in ["http://1.1.1.1/", "http://[2606:4700::1111]/", "http://172.32.0.1/"] {
            assert_eq!(reach(public).await, Reach::Public, "{public}");
        }
    }

    #[test]
    fn only_a_rule_that_names_the_host_speaks_for_a_private_address() {
        let named = |permission: serde_json::Value| {
            let config = serde_json::from_value(json!({ "permission": permission })).unwrap();
            is_named(&config, &Url::parse("http://10.0.0.5:8080/x").unwrap())
        };
        assert!(named(json!({ "webfetch": { "http://10.0.0.5:8080/*": "allow" } })));
        for other in [
            json!("allow"),
            json!({ "webfetch": "allow" }),
            json!({ "webfetch": { "*": "allow" } }),
            json!({ "webfetch": { "http://*": "allow" } }),
            json!({ "webfetch": { "http://10.0.0.5:8080/*": "deny" } }),
        ] {
            assert!(!named(other.clone()), "{other}");
        }
    }
}
