package plugin

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

const (
	// completionTimeout bounds how long a shell waits for completions, maxCompletions how many it gets.
	completionTimeout = 3 * time.Second
	maxCompletions    = 200
)

// complete returns what an argument or a flag that begins with a text can be.
type complete = func(cmd *cobra.Command, arguments []string, text string) ([]string, cobra.ShellCompDirective)

// completeArguments completes each argument by its own function.
func (o *options) completeArguments(each ...complete) complete {
	return func(cmd *cobra.Command, arguments []string, text string) ([]string, cobra.ShellCompDirective) {
		if len(arguments) >= len(each) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return each[len(arguments)](cmd, arguments, text)
	}
}

// completions asks the operator within the time that a shell can wait. A shell shows no errors.
func (o *options) completions(cmd *cobra.Command, ask func(ctx context.Context, c *client, namespace string) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	o.out, o.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
	namespace, err := o.namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	c, err := o.connect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	found, err := ask(ctx, c, namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return harmless(found), cobra.ShellCompDirectiveNoFileComp
}

// harmless keeps texts that a shell and a terminal take as one word.
func harmless(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if text != "" && !strings.ContainsFunc(text, func(r rune) bool {
			return r > unicode.MaxASCII || !unicode.IsPrint(r) || strings.ContainsRune(" \"'`$\\;&|<>(){}[]*?!#~", r)
		}) {
			kept = append(kept, text)
		}
	}
	return kept
}

func (o *options) completeImages(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	return completeIDs(o, cmd, text, "images", func(i api.Image) string { return i.ImageId })
}

func (o *options) completeVulnerabilities(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	return completeIDs(o, cmd, text, "vulnerabilities", func(v api.VulnerabilitySummary) string { return v.Id })
}

// completeIDs completes the beginning of an ID with those of a list of the API.
func completeIDs[T any](o *options, cmd *cobra.Command, text, resource string, idOf func(T) string) ([]string, cobra.ShellCompDirective) {
	return o.completions(cmd, func(ctx context.Context, c *client, namespace string) ([]string, error) {
		query := url.Values{}
		set(query, "text", text)
		set(query, "namespace", namespace)
		rows, err := list[T](ctx, c, maxCompletions, query, "api", "v1", resource)
		var ids []string
		for _, row := range rows.items {
			if id := idOf(row); strings.HasPrefix(id, text) {
				ids = append(ids, id)
			}
		}
		return ids, err
	})
}

// completeNamespaces completes the names of the namespaces of the cluster or, for users who may not list them, of those that they see.
func (o *options) completeNamespaces(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	beginning := func(names []string) []string {
		return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, text) })
	}
	if names, err := o.namespacesOfCluster(ctx); err == nil {
		return beginning(names), cobra.ShellCompDirectiveNoFileComp
	}
	return o.completions(cmd, func(ctx context.Context, c *client, _ string) ([]string, error) {
		var session api.Session
		err := c.get(ctx, &session, nil, "api", "v1", "session")
		if err != nil || session.Namespaces == nil {
			return nil, err
		}
		return beginning(session.Namespaces.Names), nil
	})
}

func (o *options) namespacesOfCluster(ctx context.Context) ([]string, error) {
	config, err := o.kubeconfig().ClientConfig()
	if err != nil {
		return nil, err
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespaces, err := core.Namespaces().List(ctx, metav1.ListOptions{Limit: maxPage})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(namespaces.Items))
	for i := range namespaces.Items {
		names[i] = namespaces.Items[i].Name
	}
	return names, nil
}
