package catalog

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// A zip archive that contains nothing but itself. Its compressed data is a program of two instructions, "print what follows" and
// "repeat what was printed last", that prints the whole archive. See https://research.swtch.com/zip.

// instruction is the size of each instruction in bytes.
const instruction = 10

// deflater writes Deflate blocks with fixed codes, bit by bit.
type deflater struct {
	out  []byte
	size int
}

func (d *deflater) bits(value, count int) {
	for i := range count {
		if d.size%8 == 0 {
			d.out = append(d.out, 0)
		}
		d.out[d.size/8] |= byte(value>>i&1) << (d.size % 8)
		d.size++
	}
}

// code writes a Huffman code, whose first bit is the highest one.
func (d *deflater) code(value, count int) {
	for i := range count {
		d.bits(value>>(count-1-i), 1)
	}
}

// copy repeats the bytes from that far back. It knows lengths up to 114.
func (d *deflater) copy(length, distance int) {
	code, base, extra := 1, 3, 0
	for length >= base+1<<extra {
		base += 1 << extra
		if code++; code >= 9 {
			extra = (code - 5) / 4
		}
	}
	d.code(code, 7)
	d.bits(length-base, extra)
	code, base, extra = 0, 1, 0
	for distance >= base+1<<extra {
		base += 1 << extra
		if code++; code >= 4 {
			extra = code/2 - 1
		}
	}
	d.code(code, 5)
	d.bits(distance-base, extra)
}

// printNext is the instruction to print the next count bytes.
func printNext(count int, final byte) []byte {
	return []byte{0, 0, 0, 0xff, 0xff, final, byte(count), byte(count >> 8), ^byte(count), ^byte(count >> 8)}
}

// repeatLast is the instruction to print the last count bytes again. Not every count can be written in the size of an instruction.
func repeatLast(count int) []byte {
	for _, parts := range [][]int{{count / 2, count - count/2}, {10, 10, count - 20}} {
		d := &deflater{}
		d.bits(0b010, 3)
		for _, part := range parts {
			d.copy(part, count)
		}
		d.bits(0, 7)
		for d.size < 8*instruction {
			d.bits(0b010, 10) // an empty block
		}
		if d.size == 8*instruction {
			return d.out
		}
	}
	panic(fmt.Sprintf("no instruction repeats %d bytes", count))
}

// quine returns an archive with itself under a name of five bytes.
func quine(name string) []byte {
	header, trailer := quineFrame(name, 0)
	header, trailer = quineFrame(name, len(quineProgram(header, trailer)))
	return slices.Concat(header, quineProgram(header, trailer), trailer)
}

// quineFrame is what stands before and after the compressed data. The checksum 0 means that there is none.
func quineFrame(name string, compressed int) (header, trailer []byte) {
	const headerSize, entrySize, endSize = 30, 46, 22
	whole := headerSize + len(name) + compressed + entrySize + len(name) + endSize
	common := make([]byte, 26)
	put16, put32 := binary.LittleEndian.PutUint16, binary.LittleEndian.PutUint32
	put16(common, 20)
	put16(common[4:], 8)
	put32(common[14:], uint32(compressed))
	put32(common[18:], uint32(whole))
	put16(common[22:], uint16(len(name)))
	end := make([]byte, endSize)
	copy(end, "PK\x05\x06")
	put16(end[8:], 1)
	put16(end[10:], 1)
	put32(end[12:], uint32(entrySize+len(name)))
	put32(end[16:], uint32(headerSize+len(name)+compressed))
	header = slices.Concat([]byte("PK\x03\x04"), common, []byte(name))
	return header, slices.Concat([]byte("PK\x01\x02\x14\x00"), common, make([]byte, 14), []byte(name), end)
}

// quineProgram prints the header, itself and the trailer.
func quineProgram(header, trailer []byte) []byte {
	print0, print1, print4, repeat4 := printNext(0, 0), printNext(instruction, 0), printNext(4*instruction, 0), repeatLast(4*instruction)
	printHeader, repeatHeader := printNext(len(header)+instruction, 0), repeatLast(len(header)+instruction)
	printTrailer, repeatTrailer := printNext(len(trailer)+2*instruction, 0), repeatLast(len(trailer)+2*instruction)
	stop := printNext(0, 1)
	return slices.Concat(
		printHeader, header, printHeader,
		repeatHeader,
		print1, repeatHeader,
		print1, print1,
		print4, repeatHeader, print1, print1, print4,
		repeat4,
		print4, repeat4, print4, repeat4, print4,
		repeat4,
		print4, repeat4, print0, print0, printTrailer,
		repeat4,
		print0, print0, printTrailer, repeatTrailer, stop, trailer,
		repeatTrailer, stop,
	)
}
