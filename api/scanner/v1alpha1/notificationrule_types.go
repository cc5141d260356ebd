package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionDelivering is True when no message of a rule waits to be sent again.
const ConditionDelivering = "Delivering"

// The reasons of the conditions Valid and Delivering of a rule.
const (
	// ReasonRuleActive: the rule is in effect.
	ReasonRuleActive = "Active"
	// ReasonRuleInvalid: the rule cannot be read. The message states the problem.
	ReasonRuleInvalid = "Invalid"
	// ReasonRuleEvaluationFailed: the rule is in effect, but its expression cannot be evaluated for some changes. It does not select these.
	ReasonRuleEvaluationFailed = "EvaluationFailed"
	// ReasonRuleTooMany: there are more rules than the bounds allow, and this is one of the newest.
	ReasonRuleTooMany = "TooMany"
	// ReasonDelivering: the last attempts to send messages succeeded.
	ReasonDelivering = "Delivering"
	// ReasonDeliveryFailed: a message could not be sent, and is sent again later. The message states the sink and the problem.
	ReasonDeliveryFailed = "DeliveryFailed"
	// ReasonRuleNotActive: the rule is not in effect, so it sends nothing.
	ReasonRuleNotActive = "NotActive"
)

// NotificationRuleSpec states which changes are reported, how they are grouped, and where they are sent.
//
// +kubebuilder:validation:XValidation:rule="!has(self.digest) || !has(self.digest.report) || self.sinks.exists(s, has(s.email))",message="digest.report needs a sink of type email"
type NotificationRuleSpec struct {
	// When is an expression in the Common Expression Language (CEL) that selects changes. It can use the variables change, finding, image and
	// workload, for example change.kind == "FindingOpened" && finding.fixable && workload.owner == "shop". The parts that && joins are about change
	// and finding, or about image and workload. Defaults to all changes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	When string `json:"when,omitempty"`

	// MinSeverity is the lowest severity of changes that have one. Defaults to all severities.
	// +optional
	// +kubebuilder:validation:Enum=Critical;High;Medium;Low;Negligible
	MinSeverity string `json:"minSeverity,omitempty"`

	// Group states which changes are sent together.
	// +optional
	Group NotificationGroup `json:"group,omitzero"`

	// Digest sends what was collected at fixed times, for example once a day. Defaults to sending each message after group.window.
	// +optional
	Digest *NotificationDigest `json:"digest,omitempty"`

	// MessagesPerHour is the number of messages that the rule begins in an hour, or that a digest has, at most. Further changes are sent in one message,
	// at the end of the hour or with the digest.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MessagesPerHour int32 `json:"messagesPerHour,omitempty"`

	// Sinks are the receivers of the messages. Each gets all messages, in the order in which they are due.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Sinks []NotificationSink `json:"sinks"`
}

// NotificationGroupBy is what the changes of a message have in common.
type NotificationGroupBy string

// The values of NotificationGroupBy.
const (
	// GroupByNamespace sends the changes of each namespace together.
	GroupByNamespace NotificationGroupBy = "Namespace"
	// GroupByOwner sends the changes of the workloads of each owner together.
	GroupByOwner NotificationGroupBy = "Owner"
	// GroupByWorkload sends the changes of each workload together.
	GroupByWorkload NotificationGroupBy = "Workload"
	// GroupByRule sends all changes together.
	GroupByRule NotificationGroupBy = "Rule"
)

// NotificationGroup states which changes are sent together.
type NotificationGroup struct {
	// By is Namespace, Owner, Workload, or Rule to send all changes together.
	// +optional
	// +kubebuilder:default=Namespace
	// +kubebuilder:validation:Enum=Namespace;Owner;Workload;Rule
	By NotificationGroupBy `json:"by,omitempty"`

	// Window is how long changes of a group are collected before they are sent, from 0s to 24h. It has no effect with digest.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="window must be from 0s to 24h"
	Window *metav1.Duration `json:"window,omitempty"`
}

// NotificationDigest states when the changes that were collected are sent.
type NotificationDigest struct {
	// Schedule is a cron expression with the fields minute, hour, day of the month, month and day of the week, for example "0 8 * * 1-5".
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4}$`
	Schedule string `json:"schedule"`

	// TimeZone is the name of a time zone of the IANA database, for example Europe/Budapest.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+/-]+$`
	TimeZone string `json:"timeZone,omitempty"`

	// Report sends a report to the sinks of type email at these times, in a mail of its own, whether anything changed or not. It covers the time since the
	// previous report. Defaults to no report.
	// +optional
	Report *NotificationReport `json:"report,omitempty"`
}

// NotificationReport states what a report is about: the namespace of a NotificationRule, or the cluster; or a part of it.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.namespace) && has(self.owner))",message="set at most one of namespace and owner"
type NotificationReport struct {
	// Namespace makes it a report about this namespace. Only a ClusterNotificationRule can set it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// Owner makes it a report about the workloads of this owner, those in the namespace of a NotificationRule.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Owner string `json:"owner,omitempty"`
}

// NotificationSink is a receiver of messages.
//
// +kubebuilder:validation:XValidation:rule="[has(self.webhook), has(self.alertmanager), has(self.slack), has(self.teams), has(self.email)].filter(x, x).size() == 1",message="set exactly one of webhook, alertmanager, slack, teams and email"
type NotificationSink struct {
	// Name of the sink, unique in the rule.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Webhook gets each message as a CloudEvent in JSON.
	// +optional
	Webhook *NotificationEndpoint `json:"webhook,omitempty"`
	// Alertmanager gets each message as an alert, through its API v2.
	// +optional
	Alertmanager *NotificationEndpoint `json:"alertmanager,omitempty"`
	// Slack is an incoming webhook of Slack, or of a server with the same interface.
	// +optional
	Slack *NotificationChannel `json:"slack,omitempty"`
	// Teams is a workflow of Microsoft Teams that posts adaptive cards to a channel.
	// +optional
	Teams *NotificationChannel `json:"teams,omitempty"`
	// Email sends each message by SMTP.
	// +optional
	Email *NotificationEmail `json:"email,omitempty"`
}

// NotificationEndpoint is a URL.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.credential)",message="set exactly one of url and credential"
type NotificationEndpoint struct {
	// URL of the receiver. It is requested without credentials. Addresses that are not public, and the scheme http, are used only if the chart
	// value notifications.allowedNetworks contains the address.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '' && !self.matches('^https?://[^/]*@') && !self.contains('#')",message="url must be http:// or https://HOST/PATH without a user name, a password and a fragment"
	URL string `json:"url,omitempty"`

	// Credential is the name of an entry of the chart value notifications.credentials. Its Secret contains the URL, and a token or a key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Credential string `json:"credential,omitempty"`
}

// NotificationChannel is a receiver whose URL is secret.
type NotificationChannel struct {
	// Credential is the name of an entry of the chart value notifications.credentials. Its Secret contains the URL.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Credential string `json:"credential"`
}

// NotificationEmail sends messages by SMTP.
type NotificationEmail struct {
	// Credential is the name of an entry of the chart value notifications.credentials. Its Secret contains the server, the sender, and the user
	// name and password.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Credential string `json:"credential"`

	// To are the addresses of the recipients.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=254
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`
	To []string `json:"to"`
}

// NotificationRuleStatus is the observed state of a rule.
type NotificationRuleStatus struct {
	// ObservedGeneration is the metadata.generation that the status is based on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Valid and Delivering.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// LastDeliveryTime is when a sink accepted a message last.
	// +optional
	LastDeliveryTime *metav1.Time `json:"lastDeliveryTime,omitempty"`

	// OldestPendingTime is since when the message that waits longest is due. Not set while no due message waits.
	// +optional
	OldestPendingTime *metav1.Time `json:"oldestPendingTime,omitempty"`

	// Pending is the number of messages that wait, for all sinks together, also because their group is still collected.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending int32 `json:"pending,omitempty"`

	// Sinks are the states of the sinks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Sinks []NotificationSinkStatus `json:"sinks,omitempty"`
}

// NotificationSinkStatus is the observed state of a sink.
type NotificationSinkStatus struct {
	// Name of the sink.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// LastDeliveryTime is when the sink accepted a message last.
	// +optional
	LastDeliveryTime *metav1.Time `json:"lastDeliveryTime,omitempty"`

	// Pending is the number of messages that wait.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending int32 `json:"pending,omitempty"`

	// Delivered is the number of messages that the sink accepted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Delivered int64 `json:"delivered,omitempty"`

	// Dropped is the number of messages that were dropped, because the sink refused them or did not accept them for 24 hours.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Dropped int64 `json:"dropped,omitempty"`

	// Error states why the last attempt failed. Not set after a success.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Error string `json:"error,omitempty"`
}

// NotificationRule sends messages about changes of the workloads in its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=notificationrules,singular=notificationrule,scope=Namespaced,shortName=nrule,categories=all-security
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Delivering",type=string,JSONPath=`.status.conditions[?(@.type=="Delivering")].status`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Last Delivery",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NotificationRule struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec states which changes are reported, and where.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.digest) || !has(self.digest.report) || !has(self.digest.report.namespace)",message="digest.report.namespace can be set by a ClusterNotificationRule only"
	Spec NotificationRuleSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status NotificationRuleStatus `json:"status,omitzero"`
}

// NotificationRuleList is a list of NotificationRules.
//
// +kubebuilder:object:root=true
type NotificationRuleList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the rules.
	Items []NotificationRule `json:"items"`
}

// ClusterNotificationRule sends messages about changes in the whole cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusternotificationrules,singular=clusternotificationrule,scope=Cluster,shortName=cnrule,categories=all-security
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Delivering",type=string,JSONPath=`.status.conditions[?(@.type=="Delivering")].status`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Last Delivery",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterNotificationRule struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec states which changes are reported, and where.
	// +required
	Spec NotificationRuleSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status NotificationRuleStatus `json:"status,omitzero"`
}

// ClusterNotificationRuleList is a list of ClusterNotificationRules.
//
// +kubebuilder:object:root=true
type ClusterNotificationRuleList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the rules.
	Items []ClusterNotificationRule `json:"items"`
}
