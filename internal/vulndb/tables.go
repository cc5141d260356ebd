package vulndb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// tables reads whole tables from the pages of a database file: SQLite takes several times longer to return a row than a comparison to
// use it. SQLite says where a table begins and which columns it has; the format of the pages never changes
// (https://www.sqlite.org/fileformat2.html). A file that uses what is not known here is an error.
type tables struct {
	file io.ReaderAt
	// size is that of a page and usable the part of it that is used, in bytes; pages is how many there are.
	size, usable, pages int64
	// levels holds the page of each level of a tree, overflow the page that a long row goes on in, and payload a long row.
	levels   [maxLevels][]byte
	overflow []byte
	payload  []byte
}

// maxLevels bounds the levels of a tree, as in SQLite.
const maxLevels = 20

// Kinds of pages of tables, and the bytes of their headers.
const (
	interiorPage, interiorHeader = 5, 12
	leafPage, leafHeader         = 13, 8
)

var errMalformed = errors.New("the database file is malformed")

// newTables reads the header of a database file of a size in bytes.
func newTables(file io.ReaderAt, size int64) (*tables, error) {
	const utf8 = 1
	var header [100]byte
	if _, err := file.ReadAt(header[:], 0); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	page := int64(binary.BigEndian.Uint16(header[16:]))
	if page == 1 { // 65,536 has no room in 16 bits.
		page = 1 << 16
	}
	if page < 512 || page&(page-1) != 0 {
		return nil, fmt.Errorf("%w: pages of %d bytes", errMalformed, page)
	}
	if encoding := binary.BigEndian.Uint32(header[56:]); encoding != utf8 {
		return nil, fmt.Errorf("%w: the text encoding %d is not UTF-8", errMalformed, encoding)
	}
	t := &tables{file: file, size: page, usable: page - int64(header[20]), pages: size / page}
	if t.usable < 480 {
		return nil, fmt.Errorf("%w: %d bytes of a page are used", errMalformed, t.usable)
	}
	return t, nil
}

// table is where a table is, and what is wanted of its rows.
type table struct {
	root uint32
	// wanted has, for each column in the file, the place in the row that is returned, -1 for none.
	wanted []int
	// id is the place of the column that is the number of the row, -1 when that is not wanted.
	id int
}

// scan calls visit for every row of a table in the order of row numbers, as "SELECT columns FROM name ORDER BY rowid" does. The row is valid
// until visit returns.
func (db database) scan(ctx context.Context, name string, columns []string, visit func(row []field) error) error {
	wanted, err := db.find(ctx, name, columns)
	if err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	s := &scan{tables: db.tables, ctx: ctx, table: wanted, row: make([]field, len(columns)), visit: visit}
	if err := s.walk(wanted.root, 0); err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	return nil
}

// find asks SQLite where a table begins and in which order its columns are.
func (db database) find(ctx context.Context, name string, columns []string) (table, error) {
	// It fails as any other query when there is no such table or column.
	if err := db.each(ctx, selectOf(name, columns)+" WHERE false", func([]field) error { return nil }); err != nil {
		return table{}, err
	}
	found := table{id: -1}
	err := db.each(ctx, "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = '"+name+"'", func(row []field) error {
		root := row[0].number()
		if root < 1 || root > math.MaxUint32 {
			return fmt.Errorf("%w: the table begins at page %d", errMalformed, root)
		}
		found.root = uint32(root)
		return nil
	})
	if err != nil {
		return table{}, err
	}
	places := make(map[string]int, len(columns))
	for i, column := range columns {
		places[column] = i
	}
	// A single primary key of the type INTEGER is the number of the row.
	const query = "SELECT name, hidden, pk AND lower(type) = 'integer' AND (SELECT COUNT(*) FROM pragma_table_xinfo('%[1]s') WHERE pk) = 1 " +
		"FROM pragma_table_xinfo('%[1]s') ORDER BY cid"
	err = db.each(ctx, fmt.Sprintf(query, name), func(row []field) error {
		if row[1].number() != 0 {
			return fmt.Errorf("%w: the column %s is generated", errMalformed, row[0].bytes)
		}
		place, chosen := places[string(row[0].bytes)]
		if !chosen {
			place = -1
		} else if row[2].number() != 0 {
			found.id = place
		}
		found.wanted = append(found.wanted, place)
		return nil
	})
	return found, err
}

// scan is one pass over a table.
type scan struct {
	*tables
	ctx   context.Context //nolint:containedctx // that of the call that the scan is made for
	table table
	row   []field
	visit func(row []field) error
	// read counts the pages that were read: a tree has each page once.
	read int64
	rows int
}

// page reads a page into a buffer, which is made when there is none.
func (s *scan) page(number uint32, buffer *[]byte) ([]byte, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	if s.read++; number == 0 || int64(number) > s.pages || s.read > s.pages {
		return nil, fmt.Errorf("%w: page %d of %d", errMalformed, number, s.pages)
	}
	if *buffer == nil {
		*buffer = make([]byte, s.size)
	}
	if _, err := s.file.ReadAt(*buffer, int64(number-1)*s.size); err != nil {
		return nil, fmt.Errorf("page %d: %w", number, err)
	}
	return (*buffer)[:s.usable], nil
}

// walk visits the rows below a page.
func (s *scan) walk(number uint32, level int) error {
	if level == maxLevels {
		return fmt.Errorf("%w: a tree of more than %d levels", errMalformed, maxLevels)
	}
	page, err := s.page(number, &s.levels[level])
	if err != nil {
		return err
	}
	head := page
	if number == 1 { // It begins with the header of the file.
		head = page[100:]
	}
	kind, cells := head[0], int(binary.BigEndian.Uint16(head[3:]))
	size := leafHeader
	if kind == interiorPage {
		size = interiorHeader
	}
	if kind != interiorPage && kind != leafPage || len(head) < size+2*cells {
		return fmt.Errorf("%w: page %d is none of a table", errMalformed, number)
	}
	for i := range cells {
		at := int(binary.BigEndian.Uint16(head[size+2*i:]))
		if at+4 > len(page) {
			return fmt.Errorf("%w: page %d", errMalformed, number)
		}
		if kind == leafPage {
			err = s.cell(page[at:])
		} else {
			err = s.walk(binary.BigEndian.Uint32(page[at:]), level+1)
		}
		if err != nil {
			return err
		}
	}
	if kind == interiorPage {
		return s.walk(binary.BigEndian.Uint32(head[8:]), level+1)
	}
	return nil
}

// cell visits the row in a cell of a leaf.
func (s *scan) cell(cell []byte) error {
	length, rest, ok := varint(cell)
	if !ok || length < 0 || length > s.pages*s.size {
		return fmt.Errorf("%w: the length of a row", errMalformed)
	}
	id, rest, ok := varint(rest)
	if !ok {
		return fmt.Errorf("%w: the number of a row", errMalformed)
	}
	local := length
	if most := s.usable - 35; length > most {
		least := (s.usable-12)*32/255 - 23
		if local = least + (length-least)%(s.usable-4); local > most {
			local = least
		}
	}
	if int64(len(rest)) < local {
		return fmt.Errorf("%w: a row is cut", errMalformed)
	}
	record := rest[:local]
	if local < length {
		var err error
		if record, err = s.long(record, rest[local:], length); err != nil {
			return err
		}
	}
	if !s.fields(record, id) {
		return fmt.Errorf("%w: row %d", errMalformed, id)
	}
	if s.rows++; s.rows > maxRows {
		return fmt.Errorf("there are more than %d rows", maxRows)
	}
	return s.visit(s.row)
}

// long puts a row together that goes on in other pages.
func (s *scan) long(local, next []byte, length int64) ([]byte, error) {
	s.payload = append(s.payload[:0], local...)
	for int64(len(s.payload)) < length {
		if len(next) < 4 {
			return nil, fmt.Errorf("%w: a row is cut", errMalformed)
		}
		page, err := s.page(binary.BigEndian.Uint32(next), &s.overflow)
		if err != nil {
			return nil, err
		}
		next = page
		s.payload = append(s.payload, page[4:min(int64(len(page)), 4+length-int64(len(s.payload)))]...)
	}
	return s.payload, nil
}

// fields puts the wanted columns of a record into the row. It returns false when the record is malformed.
func (s *scan) fields(record []byte, id int64) bool {
	size, types, ok := varint(record)
	if !ok || size < 0 || size > int64(len(record)) || int64(len(record)-len(types)) > size {
		return false
	}
	body := record[size:]
	types = types[:len(types)-len(body)]
	for _, place := range s.table.wanted {
		var kind int64
		if kind, types, ok = varint(types); !ok {
			return false
		}
		length := lengthOf(kind)
		if length < 0 || length > int64(len(body)) {
			return false
		}
		if place >= 0 {
			s.row[place] = fieldIn(kind, body[:length])
			if place == s.table.id {
				s.row[place] = field{kind: integer, bits: uint64(id)} //nolint:gosec // the bits of it
			}
		}
		body = body[length:]
	}
	return true
}

// lengthOf is how many bytes a value of a type takes, -1 for a type that there is not.
func lengthOf(kind int64) int64 {
	switch {
	case kind >= 12:
		return (kind - 12) / 2
	case kind < 0 || kind == 10 || kind == 11:
		return -1
	default:
		return [...]int64{0, 1, 2, 3, 4, 6, 8, 8, 0, 0}[kind]
	}
}

// fieldIn is a value of a type.
func fieldIn(kind int64, data []byte) field {
	switch {
	case kind >= 12:
		return field{kind: content, bytes: data}
	case kind == 0:
		return field{}
	case kind == 7:
		return field{kind: float, bits: binary.BigEndian.Uint64(data)}
	case kind == 8, kind == 9:
		return field{kind: integer, bits: uint64(kind - 8)}
	default:
		var bits uint64
		if data[0]&0x80 != 0 {
			bits = math.MaxUint64 // It is negative.
		}
		for _, b := range data {
			bits = bits<<8 | uint64(b)
		}
		return field{kind: integer, bits: bits}
	}
}

// varint reads a number of at most nine bytes and returns what follows it.
func varint(data []byte) (value int64, rest []byte, ok bool) {
	var bits uint64
	for i, b := range data {
		if i == 8 {
			return int64(bits<<8 | uint64(b)), data[9:], true //nolint:gosec // the bits of it
		}
		bits = bits<<7 | uint64(b&0x7f)
		if b < 0x80 {
			return int64(bits), data[i+1:], true //nolint:gosec // the bits of it
		}
	}
	return 0, nil, false
}
