#!/usr/bin/env bash
# Manages the cluster of "make cycle": a kind cluster when kind and a Docker engine are available, else the local cluster of hack/devcluster.
# CLUSTER=kind or CLUSTER=devcluster selects one.
#
#   cluster.sh up | down | load FILE.docker.tar FILE.oci.tar | kubeconfig
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

case "${1:-}-$cluster" in
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
*) fail "usage: cluster.sh up | down | load FILE.docker.tar FILE.oci.tar | kubeconfig" ;;
esac
