package setup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// A client of the Deployment feed that does not use tokens works with --auth=none.
func TestDeploymentClientWithoutToken(t *testing.T) {
	t.Parallel()
	c, g := needCluster(t), gomega.NewWithT(t)
	ns := namespace(t, c)
	labels := map[string]string{"app": "web"}
	create(t, c, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}},
	})
	api := operator(t, ns, func(o *setup.Options) { o.Auth, o.Controllers = setup.AuthNone, []string{setup.ControllerRollout} })
	var conn *websocket.Conn
	g.Eventually(func() error {
		opened, response, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(api, "http")+"/api/wds/logs", nil)
		if err != nil {
			return err
		}
		conn = opened
		return response.Body.Close()
	}, patience, tick).Should(gomega.Succeed())
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	kind, message, err := conn.ReadMessage()
	if err != nil || kind != websocket.TextMessage || string(message) != "Successfully processed deployment: web" {
		t.Errorf("the first message is %q of kind %d, %v", message, kind, err)
	}
}
