#!/usr/bin/env bash
# Installs the Debian packages that the tests need, or names what is missing.
set -euo pipefail

PATH="$PATH:/usr/sbin"
needed=()
need() { # file or command that a package brings, package
	[[ -e "$1" ]] || command -v "$1" >/dev/null || needed+=("$2")
}

# The browser of the UI's tests: Chromium without windows.
[[ -n "${CHROMIUM:-}" ]] || need chromium-headless-shell chromium-headless-shell
# The examples of the documentation.
need curl curl
# The check of a release's signature.
need openssl openssl
# The servers of the store's tests.
need /usr/lib/postgresql postgresql
need mariadbd mariadb-server
# The reverse proxy of the API's tests.
need nginx nginx
# promtool, for the tests of the alerts.
need promtool prometheus
# A receiver of notifications.
need prometheus-alertmanager prometheus-alertmanager
if [[ "$(uname -s)" == Linux && "${CI_E2E:-}" != skip ]]; then
	# The nodes of the end-to-end tests. runc has C code and needs libseccomp.
	need gcc gcc
	need /usr/include/stdlib.h libc6-dev
	need pkg-config pkg-config
	need /usr/include/seccomp.h libseccomp-dev
	need /usr/lib/cni/bridge containernetworking-plugins
	need iptables iptables
	need conntrack conntrack
fi

if ((${#needed[@]} == 0)); then
	echo "nothing is missing"
elif [[ "$(id -u)" == 0 ]] && command -v apt-get >/dev/null; then
	echo "installing ${needed[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update
	apt-get -qq install --yes --no-install-recommends "${needed[@]}" >/dev/null
	# The tests start servers of their own; those of the packages that were just installed are not wanted.
	if [[ -d /run/systemd/system ]]; then
		for package in "${needed[@]}"; do
			case "$package" in
			postgresql) systemctl disable --quiet --now postgresql ;;
			mariadb-server) systemctl disable --quiet --now mariadb ;;
			nginx) systemctl disable --quiet --now nginx ;;
			prometheus) systemctl disable --quiet --now prometheus ;;
			prometheus-alertmanager) systemctl disable --quiet --now prometheus-alertmanager ;;
			esac
		done
	fi
else
	"$(dirname "$0")/missing.sh" "the packages ${needed[*]} (Debian's names)"
fi
