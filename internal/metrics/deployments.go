package metrics

import "github.com/prometheus/client_golang/prometheus"

// Deployments counts what the live feed of Deployments does. It implements deploymentfeed.Metrics.
type Deployments struct {
	clients           prometheus.Gauge
	messages, evicted prometheus.Counter
}

// NewDeployments registers the metrics.
func NewDeployments(registerer prometheus.Registerer) (*Deployments, error) {
	d := &Deployments{
		clients: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "deployment_feed_clients", Help: "Connected clients of the live feed of Deployments.",
		}),
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "deployment_feed_messages_total", Help: "Messages about Deployments that were sent to clients.",
		}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "deployment_feed_evictions_total",
			Help: "Clients of the live feed of Deployments that were disconnected because they were too slow.",
		}),
	}
	return d, register(registerer, d.clients, d.messages, d.evicted)
}

// Joined counts a client.
func (d *Deployments) Joined() { d.clients.Inc() }

// Left counts a client no more.
func (d *Deployments) Left() { d.clients.Dec() }

// Sent counts messages.
func (d *Deployments) Sent(messages int) { d.messages.Add(float64(messages)) }

// Evicted counts a client that did not keep up.
func (d *Deployments) Evicted() { d.evicted.Inc() }
