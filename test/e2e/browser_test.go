//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/test/dexserver"
)

const (
	// externalURL is where browsers reach the operator. Its certificate is for this name, which the machine does not resolve.
	externalURL = "https://" + serviceName + ":8000"
	oidcClient  = "scanner-operator"
	oidcSecret  = "client-secret-of-the-tests"
	dexPassword = "correct horse"
	// viewerRole is a ClusterRole of the chart.
	viewerRole = "scanner-operator-viewer"
)

// startProvider starts dex where pods and browsers reach it, and creates the client secret. It returns the values of the chart.
func startProvider(ctx context.Context) ([]string, error) {
	address, err := nodeAddress(ctx)
	if err != nil {
		return nil, err
	}
	if e2e.dex, err = dexserver.Start(filepath.Join(e2e.Root, "test", "dex"), address); err != nil {
		return nil, err
	}
	err = e2e.dex.SetClient(dexserver.Client{
		ID: oidcClient, Secret: oidcSecret,
		RedirectURIs: []string{externalURL + "/api/v1/session/callback"}, PostLogoutRedirectURIs: []string{externalURL + "/"},
	})
	if err != nil {
		return nil, err
	}
	bundle := filepath.Join(filepath.Dir(e2e.Kubeconfig), "dex.crt")
	if err := os.WriteFile(bundle, []byte(e2e.dex.CA), 0o600); err != nil {
		return nil, err
	}
	if err := e2e.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}); err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "scanner-oidc"}, StringData: map[string]string{"client-secret": oidcSecret},
	}
	return []string{
		"--set=api.externalURL=" + externalURL, "--set=auth.oidc.issuer=" + e2e.dex.Issuer, "--set=auth.oidc.clientID=" + oidcClient,
		"--set=auth.oidc.clientSecretRef.name=" + secret.Name, "--set-file=auth.oidc.caBundle=" + bundle, "--set=auth.oidc.name=Dex",
		"--set=auth.oidc.usernameClaim=email", "--set=auth.oidc.groupsClaim=groups", "--set=auth.oidc.groupsPrefix=oidc:",
		"--set=auth.oidc.scopes={openid,profile,email,groups,offline_access}",
	}, e2e.client.Create(ctx, secret)
}

// browserUser is a user of dex, as web/e2e-cluster reads it.
type browserUser struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

// browserTeam is a team that sees one namespace.
type browserTeam struct {
	User      browserUser `json:"user"`
	Namespace string      `json:"namespace"`
	Images    []string    `json:"images"`
	Pod       string      `json:"pod"`
	PodImage  string      `json:"podImage"`
}

// TestTeamsInABrowser lets two teams and the platform team sign in at dex in Chromium: each sees what RBAC permits, live, until the permission
// is revoked or the user signs out everywhere. It runs alone: Chromium ends all requests when the addresses of the node change, as they do when pods
// start and end.
func TestTeamsInABrowser(t *testing.T) {
	playwright := filepath.Join(e2e.Root, "web", "node_modules", ".bin", "playwright")
	if _, err := os.Stat(playwright); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("the UI and its tests were not built, as Node is not installed")
	}
	shared, sharedID := e2e.registry.push(t, "java-app", "teams/shared")
	teams := []browserTeam{newBrowserTeam(t, "a", "node-app", shared, sharedID), newBrowserTeam(t, "b", "python-app", shared, sharedID)}
	platform := newDexUser(t, "platform", "platform")
	bindViewer(t, "", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "oidc:platform"})
	scanned(t, newAPI(t), slices.Concat(teams[0].Images, teams[1].Images)...)

	address, err := serviceAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ = strings.Cut(strings.TrimPrefix(address, "https://"), ":")
	setup, err := json.Marshal(map[string]any{
		"url": externalURL, "address": address, "kubeconfig": e2e.Kubeconfig, "patience": patience.Milliseconds(), "teams": teams, "platform": platform,
	})
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), playwright, "test", "--config=playwright.cluster.config.ts")
	command.Dir, command.Env = filepath.Join(e2e.Root, "web"), append(os.Environ(), "CLUSTER_SETUP="+string(setup))
	out, err := command.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// newBrowserTeam makes a team whose namespace runs an image of its own and a shared one, and which sees only this namespace.
func newBrowserTeam(t *testing.T, name, sample, shared, sharedID string) browserTeam {
	t.Helper()
	team := browserTeam{User: newDexUser(t, name, "team-"+name), Namespace: restrictedNamespace(t)}
	applyScanner(t, team.Namespace)
	own, ownID := e2e.registry.push(t, sample, "teams/"+name)
	runPod(t, team.Namespace, "own", own)
	runPod(t, team.Namespace, "shared", shared)
	team.Images = []string{ownID, sharedID}
	bindViewer(t, team.Namespace, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "oidc:team-" + name})

	next, nextID := e2e.registry.push(t, "alpine", "teams/next-"+name)
	pod, err := json.Marshal(corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "next"}, Spec: restrictedPod(next),
	})
	if err != nil {
		t.Fatal(err)
	}
	team.Pod, team.PodImage = string(pod), nextID
	return team
}

func newDexUser(t *testing.T, name, group string) browserUser {
	t.Helper()
	user := browserUser{Email: name + "@example.com", Password: dexPassword}
	err := e2e.dex.SetUser(dexserver.User{
		Email: user.Email, Username: name, UserID: "id-of-" + name, EmailVerified: true, Groups: []string{group},
	}, user.Password)
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// bindViewer lets somebody read results in a namespace or, with "", in the whole cluster, as the documentation says.
func bindViewer(t *testing.T, namespace string, subject rbacv1.Subject) {
	t.Helper()
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: viewerRole}
	if namespace == "" {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "reads-results-"}, RoleRef: role, Subjects: []rbacv1.Subject{subject}}
		create(t, binding)
		return
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reads-results"}, RoleRef: role, Subjects: []rbacv1.Subject{subject}}
	create(t, binding)
}
