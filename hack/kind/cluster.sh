#!/usr/bin/env bash
# Manages the cluster of "make cycle": a kind cluster when kind and a Docker engine are available, else the local cluster of hack/devcluster.
# CLUSTER=kind or CLUSTER=devcluster selects one.
#
#   cluster.sh up | down | load FILE.docker.tar FILE.oci.tar | kubeconfig | current
#
# "current" fails unless the current context of kubectl is this cluster.
set -euo pipefail
cd "$(dirname "$0")/../.."
name=${NAME:-kind}

have_kind() { command -v kind >/dev/null && docker info >/dev/null 2>&1; }
devcluster() { go run -C hack/devcluster . "$@" --mode=real; }
fail() {
	echo "$*" >&2
	exit 1
}

cluster=${CLUSTER:-}
if [[ -z "$cluster" ]]; then
	# A running cluster comes first: "load" must reach the one that is in use.
	if devcluster status >/dev/null 2>&1; then
		cluster=devcluster
	elif have_kind; then
		cluster=kind
	elif [[ "$(uname -s)" == Linux && "$(id -u)" == 0 ]]; then
		cluster=devcluster
	else
		fail "no local cluster: install kind and Docker, or run as root on Linux for the cluster of hack/devcluster"
	fi
fi
case "$cluster" in
kind) have_kind || fail "CLUSTER=kind requires the kind command and a running Docker engine" ;;
devcluster) ;;
*) fail "CLUSTER=$cluster: use kind or devcluster" ;;
esac

# Names of contexts can be those of other clusters; no other cluster has the same CA and the same address.
identity() { "${KUBECTL:-kubectl}" config view --minify --raw -o 'jsonpath={.clusters[0].cluster}'; }
current() {
	local kubeconfig here there
	kubeconfig=$(hack/kind/cluster.sh kubeconfig) && here=$(KUBECONFIG=$kubeconfig identity) && there=$(identity) && [[ -n "$here" && "$here" == "$there" ]]
}

case "${1:-}-$cluster" in
current-*) current 2>/dev/null || fail "the current context of kubectl is not the local cluster" ;;
up-kind) kind create cluster --name "$name" --config hack/kind/kind-config.yaml ;;
up-devcluster) devcluster up ;;
down-kind) kind delete cluster --name "$name" ;;
down-devcluster) devcluster down ;;
load-kind) kind load image-archive "$2" --name "$name" ;;
load-devcluster)
	devcluster status >/dev/null || fail "no local cluster is running: start one with make setup-cluster"
	go run -C hack/devcluster . load "$PWD/$3"
	;;
kubeconfig-kind)
	mkdir -p dist
	kind get kubeconfig --name "$name" >dist/kind.kubeconfig
	echo "$PWD/dist/kind.kubeconfig"
	;;
kubeconfig-devcluster) devcluster kubeconfig ;;
*) fail "usage: cluster.sh up | down | load FILE.docker.tar FILE.oci.tar | kubeconfig | current" ;;
esac
