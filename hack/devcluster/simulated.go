package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// stages are kwok's rules for simulated nodes and pods.
//
//go:embed stages.yaml
var stages []byte

// resolverMark begins the lines of the stages that count with the image resolver alone.
const resolverMark = "#resolver"

func stagesFor(resolveImages bool) []byte {
	if !resolveImages {
		return stages
	}
	return bytes.ReplaceAll(stages, []byte("\n"+resolverMark), []byte("\n"))
}

const imageResolver = "image-resolver"

// simulatedNodes are of two architectures, so that images for several platforms have somewhere to run.
var simulatedNodes = []struct{ name, arch string }{
	{"amd64-1", "amd64"}, {"amd64-2", "amd64"}, {"arm64-1", "arm64"},
}

func (c *cluster) startSimulated(ctx context.Context) error {
	plane := controlPlane{bind: loopback, serviceCIDR: "10.96.0.0/16", serviceIP: "10.96.0.1"}
	if err := c.reservePorts("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"); err != nil {
		return err
	}
	if err := c.writeCredentials(plane, map[string]identity{
		"kwok": {user: "kwok", groups: []string{"system:masters"}}, imageResolver: {user: imageResolver, groups: []string{"system:masters"}},
	}); err != nil {
		return err
	}
	if err := os.WriteFile(c.path("stages.yaml"), stagesFor(c.state.ResolveImages), 0o600); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx, plane); err != nil {
		return err
	}
	if err := c.run(spec{name: "kwok", bin: filepath.Join(c.state.Binaries, "kwok"), args: []string{
		"--kubeconfig=" + c.path("pki", "kwok.kubeconfig"), "--config=" + c.path("stages.yaml"),
		"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
		"--server-address=" + net.JoinHostPort(loopback, strconv.Itoa(c.state.Ports["kwok"])),
		"--cidr=10.244.0.0/16", "--node-ip=" + loopback,
		// As a kubelet's. Without leases nodes are not ready from time to time.
		"--node-lease-duration-seconds=40",
	}}); err != nil {
		return err
	}
	if c.state.ResolveImages {
		if err := c.run(spec{name: imageResolver, bin: filepath.Join(c.state.Binaries, imageResolver), args: []string{
			"--kubeconfig=" + c.path("pki", imageResolver+".kubeconfig"),
		}}); err != nil {
			return err
		}
	}
	for _, node := range simulatedNodes {
		if err := c.createNode(ctx, node.name, node.arch); err != nil {
			return err
		}
	}
	return until(ctx, func() error {
		if err := c.dead(); err != nil {
			return err
		}
		if err := c.nodesReady(ctx, len(simulatedNodes)); err != nil {
			return err
		}
		// Pods are refused until the controllers have made it.
		_, err := c.request(ctx, http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", "", nil)
		return err
	})
}

func (c *cluster) createNode(ctx context.Context, name, arch string) error {
	spec := map[string]any{}
	if c.state.ResolveImages && arch != runtime.GOARCH {
		// Most images that are built here are for the architecture of this machine alone. Pods can still select the node.
		spec["taints"] = []any{map[string]string{"key": "kubernetes.io/arch", "value": arch, "effect": "PreferNoSchedule"}}
	}
	node, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Node", "spec": spec,
		"metadata": map[string]any{
			"name":        name,
			"annotations": map[string]string{"kwok.x-k8s.io/node": "fake"},
			"labels": map[string]string{
				"kubernetes.io/arch": arch, "kubernetes.io/os": "linux", "kubernetes.io/hostname": name, "type": "kwok",
			},
		},
		"status": map[string]any{
			"allocatable": map[string]string{"cpu": "64", "memory": "256Gi", "pods": "10000"},
			"capacity":    map[string]string{"cpu": "64", "memory": "256Gi", "pods": "10000"},
			"nodeInfo": map[string]string{
				"architecture": arch, "operatingSystem": "linux", "kubeletVersion": "fake", "bootID": "", "containerRuntimeVersion": "",
				"kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "osImage": "", "systemUUID": "",
			},
		},
	})
	if err != nil {
		return err
	}
	_, err = c.request(ctx, http.MethodPost, "/api/v1/nodes", "application/json", bytes.NewReader(node))
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusConflict {
		return nil
	}
	return err
}

// nodesReady returns nil when that many nodes are Ready.
func (c *cluster) nodesReady(ctx context.Context, want int) error {
	body, err := c.request(ctx, http.MethodGet, "/api/v1/nodes", "", nil)
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string } `json:"conditions"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	ready := 0
	for _, node := range list.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				ready++
			}
		}
	}
	if ready < want {
		return fmt.Errorf("%d of %d nodes are ready", ready, want)
	}
	return nil
}
