// Package seal hides numbers and texts that follow from what a caller does not see, such as row numbers, from callers that have to give them back.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

const (
	// MaxID is the greatest number that ID takes: clients in JavaScript read numbers up to 2^53 exactly.
	MaxID = 1<<idBits - 1
	// idBits is twice halfBits, the bits of which a round changes.
	idBits, halfBits = 52, 26
	rounds           = 8
)

// Sealer seals with one key. It is safe for concurrent use.
type Sealer struct {
	aead     cipher.AEAD
	nonces   []byte
	permutes []byte
}

// New makes a sealer with a key of KeySize random bytes, from which it derives one for each purpose.
func New(key []byte) (*Sealer, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("the key has %d bytes instead of %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(digest(key, []byte("seal")))
	if err != nil {
		return nil, fmt.Errorf("make a cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make a cipher: %w", err)
	}
	return &Sealer{aead, digest(key, []byte("nonce")), digest(key, []byte("permute"))}, nil
}

func digest(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// Same seals a content, so that only the same purpose opens it. The same content gives the same text.
func (s *Sealer) Same(purpose string, content []byte) string {
	return s.seal(purpose, content, digest(s.nonces, []byte(purpose), content)[:s.aead.NonceSize()])
}

// Fresh seals a content like Same, but gives another text each time: two of them do not tell whether their contents differ.
func (s *Sealer) Fresh(purpose string, content []byte) string {
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // It never fails: the program ends when the system gives no random numbers.
	return s.seal(purpose, content, nonce)
}

func (s *Sealer) seal(purpose string, content, nonce []byte) string {
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, content, []byte(purpose)))
}

// Open returns the content of a text that was sealed for a purpose, false for any other text.
func (s *Sealer) Open(purpose, text string) ([]byte, bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sealed) < s.aead.NonceSize() {
		return nil, false
	}
	nonce, content := sealed[:s.aead.NonceSize()], sealed[s.aead.NonceSize():]
	opened, err := s.aead.Open(nil, nonce, content, []byte(purpose))
	return opened, err == nil
}

// ID permutes the numbers from 0 to MaxID. Others stay as they are.
func (s *Sealer) ID(purpose string, id int64) int64 { return s.permute(purpose, id, false) }

// OpenID is the reverse of ID.
func (s *Sealer) OpenID(purpose string, id int64) int64 { return s.permute(purpose, id, true) }

// permute is a Feistel network whose rounds are keyed digests.
func (s *Sealer) permute(purpose string, id int64, back bool) int64 {
	if id < 0 || id > MaxID {
		return id
	}
	const mask = 1<<halfBits - 1
	left, right := uint64(id)>>halfBits, uint64(id)&mask
	for i := range rounds {
		round := i
		if back {
			round = rounds - 1 - i
			left, right = right, left
		}
		var number [9]byte
		number[0] = byte(round)
		binary.BigEndian.PutUint64(number[1:], right)
		left, right = right, left^binary.BigEndian.Uint64(digest(s.permutes, []byte(purpose), number[:]))&mask
		if back {
			left, right = right, left
		}
	}
	return int64(left<<halfBits | right) //nolint:gosec // 52 bits
}
