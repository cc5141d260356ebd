// Package exceptions reads and writes exceptions in the Kubernetes API, with the account of the operator. It checks no permissions: whoever calls it
// has asked whether the user may do the same.
package exceptions

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

const (
	// FieldManager is the name of this client in the managed fields of objects.
	FieldManager = "scanner-operator-api"
	// timeout bounds one operation, with its attempts.
	timeout = 10 * time.Second
	// attempts is how often a change is tried while only the status of the object changes.
	attempts = 5
)

// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=clustervulnerabilityexceptions;vulnerabilityexceptions,verbs=get;create;update;delete

// Kind is a kind of exceptions.
type Kind struct {
	// Name is the kind, Resource the resource for permissions.
	Name, Resource string
	// Namespaced says whether its objects are in namespaces.
	Namespaced bool
	empty      func() object
}

// object is an object of one of the kinds, and its spec.
type object struct {
	client.Object
	spec *scannerv1alpha1.ExceptionSpec
}

// Kinds lists the kinds of exceptions.
func Kinds() []Kind {
	return []Kind{
		{Name: "ClusterVulnerabilityException", Resource: "clustervulnerabilityexceptions", empty: func() object {
			e := &scannerv1alpha1.ClusterVulnerabilityException{}
			return object{e, &e.Spec}
		}},
		{Name: "VulnerabilityException", Resource: "vulnerabilityexceptions", Namespaced: true, empty: func() object {
			e := &scannerv1alpha1.VulnerabilityException{}
			return object{e, &e.Spec}
		}},
	}
}

// Ref names an exception. Namespace is "" for objects of the whole cluster.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

// NewRef names an exception by its kind, namespace and name. It refuses an unknown kind, and a namespace that is missing or in excess.
func NewRef(kind, namespace, name string) (Ref, error) {
	kinds := Kinds()
	n := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == kind })
	if n < 0 {
		names := make([]string, len(kinds))
		for i := range kinds {
			names[i] = kinds[i].Name
		}
		return Ref{}, problem.BadRequest("%.63q is not a kind of exceptions; use %s", kind, strings.Join(names, " or "))
	}
	switch {
	case kinds[n].Namespaced && namespace == "":
		return Ref{}, problem.BadRequest("namespace is required for the kind %s", kind)
	case !kinds[n].Namespaced && namespace != "":
		return Ref{}, problem.BadRequest("the kind %s has no namespaces; remove namespace", kind)
	}
	return Ref{Kind: kinds[n], Namespace: namespace, Name: name}, nil
}

// String is the name of the exception, with its namespace if it has one.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// Exception is an exception as it is in the Kubernetes API.
type Exception struct {
	Ref Ref
	// Version changes with the spec, and is another one for another object with the same name.
	Version   string
	CreatedAt time.Time
	// Author is the annotation AnnotationAuthor.
	Author string
	Spec   scannerv1alpha1.ExceptionSpec
	// Managers are the field managers of the spec, the last one first, at most maxManagers.
	Managers []Manager
	// ManagedBy are the tools that manage the object from another place.
	ManagedBy []Tool
}

// Client reads and writes exceptions. New makes one.
type Client struct {
	reader client.Reader
	writer client.Client
}

// New returns a client. reader should read from the API server, not from a cache: caches hold no managed fields, and may be behind.
func New(reader client.Reader, writer client.Client) *Client {
	return &Client{reader: reader, writer: client.WithFieldOwner(writer, FieldManager)}
}

// Get reads an exception.
func (c *Client) Get(ctx context.Context, ref Ref) (Exception, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := c.read(ctx, ref)
	if err != nil {
		return Exception{}, err
	}
	return exceptionOf(ref, found), nil
}

// Create creates an exception of an author, who is not known if it is "". A dry run only validates it, with another name if it has none.
func (c *Client) Create(ctx context.Context, ref Ref, spec scannerv1alpha1.ExceptionSpec, author string, dryRun bool) (Exception, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	created := ref.Kind.empty()
	created.SetNamespace(ref.Namespace)
	created.SetName(ref.Name)
	var opts []client.CreateOption
	if dryRun {
		opts = append(opts, client.DryRunAll)
		if ref.Name == "" {
			created.SetGenerateName("preview-")
		}
	}
	created.decide(spec, author)
	if err := c.writer.Create(ctx, created.Object, opts...); err != nil {
		return Exception{}, answer(err, ref)
	}
	return exceptionOf(ref, created), nil
}

// Change is a change of an exception.
type Change struct {
	// Version is that of the exception that the user has read; "" in a dry run for whichever there is.
	Version string
	// OverrideManager permits to change an exception that another tool manages.
	OverrideManager bool
	// DryRun only validates the change.
	DryRun bool
}

// Update replaces the spec of an exception, and its author.
func (c *Client) Update(ctx context.Context, ref Ref, spec scannerv1alpha1.ExceptionSpec, author string, change Change) (Exception, error) {
	var after Exception
	err := c.change(ctx, ref, change, func(ctx context.Context, found object) error {
		found.decide(spec, author)
		var opts []client.UpdateOption
		if change.DryRun {
			opts = append(opts, client.DryRunAll)
		}
		err := c.writer.Update(ctx, found.Object, opts...)
		after = exceptionOf(ref, found)
		return err
	})
	return after, err
}

// Delete deletes an exception. Before each attempt, when nothing is known that speaks against it, it calls announce, whose error ends it.
func (c *Client) Delete(ctx context.Context, ref Ref, change Change, announce func(ctx context.Context, uid string) error) error {
	var unannounced error
	err := c.change(ctx, ref, change, func(ctx context.Context, found object) error {
		uid, version := found.GetUID(), found.GetResourceVersion()
		if unannounced = announce(ctx, string(uid)); unannounced != nil {
			return unannounced
		}
		return c.writer.Delete(ctx, found.Object, client.Preconditions{UID: &uid, ResourceVersion: &version})
	})
	if unannounced != nil {
		return unannounced
	}
	return err
}

// change reads an exception and changes it if it is still the one that the user has read. The operator updates the status meanwhile, which is no
// reason to fail.
func (c *Client) change(ctx context.Context, ref Ref, change Change, apply func(ctx context.Context, found object) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		found, err := c.read(ctx, ref)
		if err != nil {
			return err
		}
		if !change.DryRun && change.Version != versionOf(found) {
			return problem.New(http.StatusConflict, "%s %s has changed since you read it; read it again", ref.Kind.Name, ref)
		}
		if tools := managedBy(found); len(tools) > 0 && !change.OverrideManager && !change.DryRun {
			return problem.New(http.StatusConflict, "%s manages %s %s and may undo the change: change it there, or set overrideManager to change it here",
				tools[0], ref.Kind.Name, ref)
		}
		err = apply(ctx, found)
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) || attempt == attempts {
			return answer(err, ref)
		}
	}
}

func (c *Client) read(ctx context.Context, ref Ref) (object, error) {
	found := ref.Kind.empty()
	if err := c.reader.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, found.Object); err != nil {
		return object{}, answer(err, ref)
	}
	return found, nil
}

func exceptionOf(ref Ref, o object) Exception {
	ref.Name = o.GetName()
	return Exception{
		Ref: ref, Version: versionOf(o), CreatedAt: o.GetCreationTimestamp().Time, Author: o.GetAnnotations()[scannerv1alpha1.AnnotationAuthor],
		Spec: *o.spec, Managers: managersOf(o), ManagedBy: managedBy(o),
	}
}

// versionOf identifies an object and its spec. The resource version would change with the status, too.
func versionOf(o object) string { return fmt.Sprintf("%s.%d", o.GetUID(), o.GetGeneration()) }

// decide sets the spec and who decided so, nobody if author is "".
func (o object) decide(spec scannerv1alpha1.ExceptionSpec, author string) {
	*o.spec = spec
	annotations := maps.Clone(o.GetAnnotations())
	delete(annotations, scannerv1alpha1.AnnotationAuthor)
	if author != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[scannerv1alpha1.AnnotationAuthor] = author
	}
	o.SetAnnotations(annotations)
}
