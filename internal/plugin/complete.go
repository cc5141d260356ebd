package plugin

import (
	"context"
	"net/url"
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

func (o *options) completeNamespaces(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	config, err := o.kubeconfig().ClientConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	namespaces, err := core.Namespaces().List(ctx, metav1.ListOptions{Limit: maxPage})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, n := range namespaces.Items {
		if strings.HasPrefix(n.Name, text) {
			names = append(names, n.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
