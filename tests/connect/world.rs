//! Two servers, a primary and its standby, that tell roles apart by how they may come in; certificates; psql.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use pglockwatch::app::demo::{Binaries, Cluster, Folder};
use tempfile::TempDir;

use super::certificates::{Certified, Contents, certify, revocations};
use crate::support::session::{superuser, superuser_of, wait_until};
use crate::support::{say, server};

/// The password of every role that has one, with all that needs an escape somewhere.
pub const SECRET: &str = r"p:a\s's w@rd%";

/// What a session is: role and database; address and port; TLS; settings that options can change. `key` and `name` are
/// what our reading of a key table needs.
pub const WHOAMI: &str = "CREATE VIEW public.whoami AS SELECT 1 AS key, 'who' AS name, \
     current_user || ' ' || current_database() AS owner, \
     coalesce(host(inet_server_addr()), 'socket') || ' ' || current_setting('port') AS team, \
     coalesce((SELECT concat_ws(' ', version, client_dn) FROM pg_stat_ssl \
               WHERE pid = pg_backend_pid() AND ssl), 'plain') AS contact, \
     current_setting('work_mem') || ' ' || current_setting('search_path') AS note; \
     GRANT SELECT ON public.whoami TO PUBLIC";

/// Who may come in, and how.
const HBA: &str = "\
local   all scram               scram-sha-256
local   all all                 trust
hostssl all tlsonly             all trust
host    all tlsonly             all reject
hostnossl all plainonly         all trust
host    all plainonly           all reject
hostssl all cert                all cert
host    all cert                all reject
hostssl all clientca            all trust clientcert=verify-ca
host    all clientca            all reject
host    all scram               all scram-sha-256
host    all md5                 all md5
host    all cleartext           all password
host    all nobody              all reject
host    replication postgres    all trust
host    all all                 all trust
";

/// Everything that a case can be run on.
pub struct World {
    pub psql: PathBuf,
    /// The major version of psql.
    pub version: u32,
    /// What this machine has of what cases may need.
    pub has: BTreeSet<&'static str>,
    /// What stands in braces in a case.
    pub values: BTreeMap<&'static str, String>,
    // Dropped in this order.
    _standby: Cluster,
    _primary: Cluster,
    _folder: TempDir,
}

impl World {
    /// Starts the servers, unless there is no psql beside them.
    pub fn start() -> Option<Self> {
        let binaries = server::any();
        let Some((version, psql)) = newest_psql() else {
            say("SKIPPED: the comparison with psql: it is not here (install PostgreSQL's client)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        // Other users' processes, as those of root's servers are, may look in.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut has = BTreeSet::new();
        let files = Files::make(folder.path(), &mut has);
        let sockets = default_socket_folder(&psql).filter(|path| is_writable(path));
        let settings = settings(sockets.as_deref(), &mut has);
        let primary = server::start_with(&binaries, &settings, |folder| files.install(folder));
        let follow = format!("primary_conninfo=host=127.0.0.1 port={} user=postgres", primary.port());
        // A copy of the same empty folder is a base backup: all that happened since is in the primary's WAL.
        let standby = server::start_with(&binaries, &[tls_settings(), vec![follow]].concat(), |folder| {
            files.install(folder);
            fs::write(folder.data().join("standby.signal"), "").unwrap();
        });
        populate(&primary);
        assert!(caught_up(&primary, &standby), "the standby does not follow");
        if sockets.is_some() {
            has.insert("default socket folder");
        }
        let values = values(&primary, &standby, folder.path());
        Some(Self { version, psql, has, values, _standby: standby, _primary: primary, _folder: folder })
    }

    /// A text with what stands in braces put in.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.values {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        filled
    }
}

/// The newest psql and its major version. Debian's in PATH is a wrapper that has ideas of its own.
pub fn newest_psql() -> Option<(u32, PathBuf)> {
    let folders = Binaries::all().into_iter().map(|binaries| binaries.folder);
    let found = folders.filter_map(|folder| {
        let program = folder.join("psql");
        let output = std::process::Command::new(&program).arg("--version").output().ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        let version = said.split_whitespace().nth(2)?.split('.').next()?.parse().ok()?;
        Some((version, program))
    });
    found.max()
}

fn tls_settings() -> Vec<String> {
    ["ssl=on", "ssl_cert_file=server.crt", "ssl_key_file=server.key", "ssl_ca_file=ca.crt"].map(str::to_owned).to_vec()
}

fn settings(sockets: Option<&Path>, has: &mut BTreeSet<&'static str>) -> Vec<String> {
    let mut settings = tls_settings();
    settings.extend(["wal_keep_size=512MB", "max_connections=60"].map(str::to_owned));
    let mut addresses = "listen_addresses=127.0.0.1".to_owned();
    if TcpListener::bind("[::1]:0").is_ok() {
        has.insert("IPv6");
        addresses += ",::1";
    }
    settings.push(addresses);
    // Beside the folder that is on the command line already, whose name only the server knows.
    settings.extend(sockets.map(|path| format!("unix_socket_directories=..,{}", path.display())));
    settings
}

/// Where this psql looks for a socket when nobody says: a thing of how it was built.
fn default_socket_folder(psql: &Path) -> Option<PathBuf> {
    let mut command = assert_cmd::Command::new(psql);
    command.env_clear().env("LC_ALL", "C").args(["-X", "-w", "-p", "1", "-c", "", "-d", "postgres", "-U", "x"]);
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    let path = said.split_once("socket \"")?.1.split_once("/.s.PGSQL")?.0;
    Some(PathBuf::from(path))
}

/// Whether the user whom servers run as can make a socket there.
fn is_writable(path: &Path) -> bool {
    let Ok(folder) = Folder::create("pglockwatch-probe-") else { return false };
    let probe = path.join(format!(".pglockwatch-{}", std::process::id()));
    let made = folder.command("touch").arg(&probe).output().is_ok_and(|output| output.status.success());
    let _ = fs::remove_file(&probe);
    made
}

/// Roles and databases. The password of `md5` is kept as MD5, the others' as SCRAM.
fn populate(primary: &Cluster) {
    let mut client = superuser_of(primary, "template1");
    client.batch_execute(WHOAMI).unwrap();
    let quoted = SECRET.replace('\'', "''");
    for role in ["scram", "cleartext", "tlsonly", "plainonly", "cert", "clientca", "nobody", "open", "o d'd\\r"] {
        client.batch_execute(&format!("CREATE ROLE \"{role}\" LOGIN PASSWORD '{quoted}'")).unwrap();
    }
    client.batch_execute(&format!("SET password_encryption = md5; CREATE ROLE md5 LOGIN PASSWORD '{quoted}'")).unwrap();
    let me = whoami::username().unwrap();
    if me != "postgres" {
        client.batch_execute(&format!("CREATE ROLE \"{me}\" LOGIN")).unwrap();
    }
    drop(client);
    let mut client = superuser(primary);
    client.batch_execute(WHOAMI).unwrap();
    let databases = ["open", "scram", "my db", "it's", r"back\slash", "a@b", "p%20c", "frozen", me.as_str()];
    for database in databases.iter().filter(|name| **name != "postgres") {
        client.batch_execute(&format!("CREATE DATABASE \"{database}\"")).unwrap();
    }
    client.batch_execute("ALTER DATABASE frozen SET default_transaction_read_only = on").unwrap();
}

fn caught_up(primary: &Cluster, standby: &Cluster) -> bool {
    let place = crate::support::session::single(&mut superuser(primary), "SELECT pg_current_wal_lsn()").unwrap();
    let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{place}'");
    wait_until(&mut superuser(standby), &replayed, std::time::Duration::from_secs(60))
}

fn values(primary: &Cluster, standby: &Cluster, folder: &Path) -> BTreeMap<&'static str, String> {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let socket = primary.folder().display().to_string();
    BTreeMap::from([
        ("port", primary.port().to_string()),
        ("standby", standby.port().to_string()),
        ("closed", closed.to_string()),
        ("socket", socket.clone()),
        ("socket%", socket.replace('/', "%2F")),
        ("files", folder.display().to_string()),
        ("server owner", owner_of(primary.folder())),
        ("secret", SECRET.to_owned()),
        ("secret-quoted", format!("'{}'", SECRET.replace('\\', r"\\").replace('\'', r"\'"))),
        ("secret-escaped", SECRET.replace('\\', r"\\").replace(':', r"\:")),
        (
            "secret-encoded",
            percent_encoding::utf8_percent_encode(SECRET, percent_encoding::NON_ALPHANUMERIC).to_string(),
        ),
    ])
}

/// The name of the user whom a folder belongs to.
fn owner_of(folder: &Path) -> String {
    let output = std::process::Command::new("stat").args(["-c", "%U"]).arg(folder).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What a server and its clients find in files.
struct Files {
    authority: Certified,
    server: Certified,
}

impl Files {
    /// Makes them; those of clients are written into the folder.
    fn make(folder: &Path, has: &mut BTreeSet<&'static str>) -> Self {
        let authority = certify(Contents::authority("test authority"), None);
        let stranger = certify(Contents::authority("another authority"), None);
        let names = &["localhost", "IP:127.0.0.1", "IP:::1", "db.test"];
        let server = certify(Contents { names, ..Contents::named("localhost") }, Some(&authority));
        authority.write(folder, "ca");
        stranger.write(folder, "stranger");
        let client = certify(Contents::named("cert"), Some(&authority));
        client.write(folder, "client");
        client.write_locked_key(&folder.join("locked.key"), "open sesame");
        fs::write(folder.join("client.der"), client.key.private_key_to_der().unwrap()).unwrap();
        fs::set_permissions(folder.join("client.der"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::copy(folder.join("client.key"), folder.join("exposed.key")).unwrap();
        fs::set_permissions(folder.join("exposed.key"), fs::Permissions::from_mode(0o644)).unwrap();
        certify(Contents::named("open"), Some(&authority)).write(folder, "other");
        certify(Contents::named("cert"), Some(&stranger)).write(folder, "untrusted");
        fs::write(folder.join("both.crt"), stranger.pem() + &authority.pem()).unwrap();
        fs::write(folder.join("empty.crt"), "").unwrap();
        fs::write(folder.join("garbage.crt"), "no certificate\n").unwrap();
        if crate::exporter::harness::have("openssl", "revoked certificates") {
            fs::write(folder.join("none.crl"), revocations(&authority, &[])).unwrap();
            fs::write(folder.join("server.crl"), revocations(&authority, &[&server])).unwrap();
            fs::create_dir(folder.join("crls")).unwrap();
            has.insert("revocations");
        }
        Self { authority, server }
    }

    /// Puts a server's into its data folder.
    fn install(&self, folder: &Folder) {
        let data = folder.data();
        fs::write(data.join("pg_hba.conf"), HBA).unwrap();
        self.server.write(&data, "server");
        fs::write(data.join("ca.crt"), self.authority.pem()).unwrap();
        give_to_owner(&data, &data.join("server.key"));
    }
}

/// A server wants its key to be its own.
pub fn give_to_owner(data: &Path, path: &Path) {
    let owner = fs::metadata(data).unwrap();
    chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
}
