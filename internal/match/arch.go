package match

import "encoding/json"

// Arch returns the architecture in the MatchInput of a package, which the fingerprint covers for RPM and APK packages; "" for others.
func Arch(input json.RawMessage) string {
	var in struct {
		RPM *rpmProjection `json:"rpm"`
		APK *apkProjection `json:"apk"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return ""
	}
	switch {
	case in.RPM != nil:
		return in.RPM.Arch
	case in.APK != nil:
		return in.APK.Arch
	default:
		return ""
	}
}
