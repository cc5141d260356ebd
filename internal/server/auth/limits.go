package auth

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// RateLimits bound what callers can make the API server and the store do.
type RateLimits struct {
	// RequestRate is how many requests a second a caller may make in the long run (50), RequestBurst how many at once (300); without
	// authentication 1,000 and 4,000. A caller is a user or, before it is known who that is, a client address. Requests that go
	// through everything that is stored count 20 times. The UI's own files do not count.
	RequestRate  float64
	RequestBurst int
	// FailureRate is how many tokens a second that nobody accepts an address may present in the long run (0.5), FailureBurst how
	// many at once (20).
	FailureRate  float64
	FailureBurst int
}

// maxCallers bounds the callers that a limiter remembers. One that is forgotten begins with a full allowance.
const maxCallers = 8192

const (
	// reviewEvery is how many tokens are tried, from an address that may not try any, until one is looked at all the same.
	reviewEvery = 10
	// reserveFactor is how many times the allowance for refused tokens those may be at most.
	reserveFactor = 10
)

// limiter bounds how much each caller may do: an allowance that is used up by requests and fills up again with time.
type limiter struct {
	rate  rate.Limit
	burst int

	mu      sync.Mutex
	callers *lru.Cache
}

func newLimiter(perSecond float64, burst int) *limiter {
	return &limiter{rate: rate.Limit(perSecond), burst: burst, callers: lru.New(maxCallers)}
}

func (l *limiter) of(caller string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, found := l.callers.Get(caller); found {
		if allowance, ok := known.(*rate.Limiter); ok {
			return allowance
		}
	}
	allowance := rate.NewLimiter(l.rate, l.burst)
	l.callers.Add(caller, allowance)
	return allowance
}

// spend takes a cost from what a caller has left. When that is less, it takes nothing and returns after which time it will be enough.
func (l *limiter) spend(caller string, cost int, now time.Time) time.Duration {
	reservation := l.of(caller).ReserveN(now, min(max(cost, 1), l.burst))
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// exhausted returns after which time a caller will have something left, 0 when it has.
func (l *limiter) exhausted(caller string, now time.Time) time.Duration {
	missing := 1 - l.of(caller).TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(l.rate) * float64(time.Second))
}

// Charge counts a cost on the caller of a request that was admitted.
func (g *Guard) Charge(r *http.Request, cost int) error {
	caller := callerAddress(r)
	if admitted, ok := AdmissionOf(r.Context()); ok {
		caller = admitted.Caller
	}
	return g.charge(caller, cost)
}

func (g *Guard) charge(caller string, cost int) error {
	if wait := g.requests.spend(caller, cost, g.clock()); wait > 0 {
		return problem.TooManyRequests(wait, "rate limit exceeded; try again later")
	}
	return nil
}

// try runs ask with a token unless too many before it ended with 401 for the same address. Behind a proxy many have the same
// address: a token that was good once neither waits nor counts, so that nobody who is signed in is locked out by those who guess, and
// a share of the others gets through all the same, so that one can still sign in.
func (g *Guard) try(r *http.Request, token string, ask func() error) error {
	if g.reviews.wasProven(token) {
		return ask()
	}
	address := callerAddress(r)
	if wait := g.failures.exhausted(address, g.clock()); wait > 0 && !g.reviewAnyway(address) {
		return problem.TooManyRequests(wait, "too many invalid tokens from this address; try again later")
	}
	err := ask()
	if p, ok := problem.As(err); ok && p.Status == http.StatusUnauthorized {
		g.failures.spend(address, 1, g.clock())
	}
	if err == nil {
		g.reviews.prove(token)
	}
	return err
}

// reviewAnyway lets one in reviewEvery through, as long as the reserve of its address lasts.
func (g *Guard) reviewAnyway(address string) bool {
	return g.throttled.Add(1)%reviewEvery == 0 && g.reserve.spend(address, 1, g.clock()) == 0
}

// callerUnproven is who a caller is for limiters that nobody has asked the API server about for this request: the one whose token is
// known from before or whom a front proxy names, or an address.
func (g *Guard) callerUnproven(r *http.Request) string {
	shown, err := g.credentialOf(r)
	if shown.front != nil {
		return userCaller(shown.front.user.Username)
	}
	secret := shown.token + shown.session // One of them is empty.
	if err != nil || !g.reviews.wasProven(secret) {
		return callerAddress(r)
	}
	key := g.reviews.keys.key("token", secret)
	return "token:" + string(key[:])
}

// callerUser is who a signed-in caller is for limiters.
func callerUser(p *principal) string { return userCaller(p.user.Username) }

func userCaller(name string) string { return "user:" + name }

// callerAddress is who an unknown caller is for limiters.
func callerAddress(r *http.Request) string { return Address(r.RemoteAddr) }

// Address is what counts as one client for limits, of a remote address with or without a port: the IP address, or, with IPv6, its
// network, in which the client may choose any address.
func Address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return "address:" + host
	}
	address = address.Unmap().WithZone("")
	if address.Is6() {
		if network, err := address.Prefix(64); err == nil {
			return "address:" + network.String()
		}
	}
	return "address:" + address.String()
}
