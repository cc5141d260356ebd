package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

// cacheKey stands for a token, or for a token and a verb. It is a keyed hash with a key that lives as long as the process:
// whoever reads the memory of a cache learns no token, and cannot try tokens against a dump of another process.
type cacheKey [sha256.Size]byte

// keyer makes cache keys.
type keyer struct{ secret []byte }

func newKeyer() keyer {
	secret := make([]byte, sha256.Size)
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = rand.Read(secret)
	return keyer{secret}
}

func (k keyer) key(parts ...string) cacheKey {
	mac := hmac.New(sha256.New, k.secret)
	for _, part := range parts {
		// Parts may have any bytes.
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return cacheKey(mac.Sum(nil))
}
