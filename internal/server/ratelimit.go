package server

import (
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// maxCallers bounds the callers that a limiter remembers. One that is forgotten begins with a full allowance.
const maxCallers = 8192

const (
	// luckyShare is how many tokens are tried, from an address that may not try any, until one is looked at all the same.
	luckyShare = 10
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

// tooMany asks the client to come back after some time.
func tooMany(wait time.Duration, detail string) *problem {
	p := problemf(http.StatusTooManyRequests, "%s", detail)
	p.retryAfter = max(1, int(math.Ceil(wait.Seconds())))
	return p
}

// charge counts a request on its caller.
func (s *Server) charge(caller string, route route) error {
	if wait := s.requests.spend(caller, route.cost, s.clock()); wait > 0 {
		return tooMany(wait, "too many requests, or too expensive ones, in a short time; try again later")
	}
	return nil
}

// signIn asks whose token it is. An address that tried many tokens which nobody accepts has to wait before it may try another:
// each is a question to the API server. Tokens that the answer is known of do not wait and do not count: a page that is still
// open with a session that has ended must not keep its user from signing in.
func (s *Server) signIn(r *http.Request, token string) (*principal, error) {
	if known, ok := s.reviews.remembered(token); ok {
		return orUnauthorized(known)
	}
	var p *principal
	err := s.trySignIn(r, token, func() (err error) {
		p, err = s.reviews.authenticate(r.Context(), token)
		return err
	})
	return p, err
}

// trySignIn runs try with a token unless too many before it ended with 401 for the same address. Behind a proxy many have the same
// address: a token that was good once neither waits nor counts, so that nobody who is signed in is locked out by those who guess, and
// a share of the others gets through all the same, so that one can still sign in.
func (s *Server) trySignIn(r *http.Request, token string, try func() error) error {
	if s.reviews.wasProven(token) {
		return try()
	}
	address := callerAddress(r)
	if wait := s.failures.exhausted(address, s.clock()); wait > 0 && !s.lucky(address) {
		return tooMany(wait, "too many tokens from this address were refused; try again later")
	}
	err := try()
	if p, ok := asProblem(err); ok && p.status == http.StatusUnauthorized {
		s.failures.spend(address, 1, s.clock())
	}
	if err == nil {
		s.reviews.prove(token)
	}
	return err
}

// lucky lets one in luckyShare through, as long as the reserve of its address lasts.
func (s *Server) lucky(address string) bool {
	return s.throttled.Add(1)%luckyShare == 0 && s.reserve.spend(address, 1, s.clock()) == 0
}

// callerUnproven is who a caller is for limiters that nobody has asked the API server about for this request: the one whose token is
// known from before, or an address.
func (s *Server) callerUnproven(r *http.Request) string {
	token, err := tokenOf(r)
	if err != nil || s.reviews == nil || !s.reviews.wasProven(token) {
		return callerAddress(r)
	}
	key := s.reviews.keys.key("token", token)
	return "token:" + string(key[:])
}

// callerUser is who a signed-in caller is for limiters.
func callerUser(p *principal) string { return "user:" + p.user.Username }

// callerAddress is who an unknown caller is for limiters: its address, or, with IPv6, its network, in which it may choose any address.
func callerAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
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
