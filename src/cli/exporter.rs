//! `exporter`: what was typed.

use std::path::PathBuf;

use clap::Args;

const WEB: &str = "Web";

/// `exporter`
#[derive(Debug, Default, Clone, Args)]
#[command(after_help = "\
Each server is polled over one connection, whoever scrapes and however often. The exporter starts and stays up
without a server. SIGHUP, and a change of a file that it has read, make it read its files anew.

Pages: the metrics, /findings (JSON), /runbook (for people), /-/healthy, /-/ready.

Examples:
  pglockwatch exporter -d 'host=db1 user=mon dbname=postgres'
  pglockwatch exporter --config /etc/pglockwatch/pglockwatch.toml --web.listen-address :10187 --web.config.file web.yml
  DATA_SOURCE_NAME_FILE=/run/secrets/dsn pglockwatch exporter")]
pub struct ExporterArgs {
    /// Where to listen, as 127.0.0.1:10187, [::1]:10187 or :10187 for all addresses; repeatable
    /// [default: 127.0.0.1:10187]
    #[arg(long = "web.listen-address", value_name = "ADDRESS", help_heading = WEB)]
    pub listen_address: Vec<String>,
    /// The path of the metrics [default: /metrics]
    #[arg(long = "web.telemetry-path", value_name = "PATH", help_heading = WEB)]
    pub telemetry_path: Option<String>,
    /// TLS, client certificates, users and headers, as the exporter-toolkit's web config has them
    #[arg(long = "web.config.file", value_name = "PATH", help_heading = WEB)]
    pub config_file: Option<PathBuf>,
    /// Take the sockets that systemd hands over instead of listening by itself
    #[arg(long = "web.systemd-socket", help_heading = WEB, conflicts_with = "listen_address")]
    pub systemd_socket: bool,
    /// Show statements on /findings and /runbook
    #[arg(long = "web.show-queries", help_heading = WEB)]
    pub show_queries: bool,
    /// Give the metrics of pools the label client_addr
    #[arg(long = "web.pool-clients", help_heading = WEB)]
    pub pool_clients: bool,
    /// How people reach the exporter, as https://monitoring.example.com/locks/: a proxy's Host header is not foreign
    #[arg(long = "web.external-url", value_name = "URL", help_heading = WEB)]
    pub external_url: Option<String>,
    /// Serve nothing but metrics and health
    #[arg(long = "web.no-pages", help_heading = WEB)]
    pub no_pages: bool,
    /// Serve /findings and /runbook on every address to everybody
    #[arg(long = "web.pages-without-auth", help_heading = WEB)]
    pub pages_without_auth: bool,
}

impl ExporterArgs {
    /// What was typed, and from the config's `[web]` what was not.
    #[must_use]
    pub fn or(self, config: Self) -> Self {
        let typed_socket = self.systemd_socket;
        let typed_address = !self.listen_address.is_empty();
        Self {
            listen_address: if typed_address { self.listen_address } else { config.listen_address },
            telemetry_path: self.telemetry_path.or(config.telemetry_path),
            config_file: self.config_file.or(config.config_file),
            systemd_socket: typed_socket || (config.systemd_socket && !typed_address),
            show_queries: self.show_queries || config.show_queries,
            pool_clients: self.pool_clients || config.pool_clients,
            external_url: self.external_url.or(config.external_url),
            no_pages: self.no_pages || config.no_pages,
            pages_without_auth: self.pages_without_auth || config.pages_without_auth,
        }
    }

    /// The options that differ, as the command line names them. `--web.config.file` is not among them: a running
    /// exporter takes another one.
    #[must_use]
    pub fn changed_for_good(&self, other: &Self) -> Vec<&'static str> {
        [
            ("--web.listen-address", self.listen_address != other.listen_address),
            ("--web.telemetry-path", self.telemetry_path != other.telemetry_path),
            ("--web.systemd-socket", self.systemd_socket != other.systemd_socket),
            ("--web.show-queries", self.show_queries != other.show_queries),
            ("--web.pool-clients", self.pool_clients != other.pool_clients),
            ("--web.external-url", self.external_url != other.external_url),
            ("--web.no-pages", self.no_pages != other.no_pages),
            ("--web.pages-without-auth", self.pages_without_auth != other.pages_without_auth),
        ]
        .into_iter()
        .filter_map(|(option, differs)| differs.then_some(option))
        .collect()
    }
}
