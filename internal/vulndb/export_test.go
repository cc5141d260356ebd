package vulndb

// SetFreeSpace replaces what the library believes to be free.
func (l *Library) SetFreeSpace(free int64) { l.free = func(string) (int64, error) { return free, nil } }
