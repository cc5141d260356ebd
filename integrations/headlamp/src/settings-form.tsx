import { Box, TextField, Typography } from "@mui/material";
import { defaults, mistakes, type Settings, settingsOf } from "./settings";

const fields: { name: keyof Settings; label: string; help: string }[] = [
  { name: "namespace", label: "Namespace", help: "Namespace of the operator" },
  {
    name: "service",
    label: "Service",
    help: "Service of the operator, which must serve TLS",
  },
  {
    name: "serviceAccount",
    label: "ServiceAccount",
    help: "Account that may read results, as NAME or NAMESPACE/NAME; a NAME is looked up in the namespace of each workload. You need permission to create its tokens. Leave empty if the operator permits anonymous reading.",
  },
  {
    name: "address",
    label: "Address of the UI",
    help: "Optional. Where your browser reaches the UI of the operator, for links to it",
  },
];

interface Props {
  data?: { [key: string]: unknown };
  onDataChange?: (data: { [key: string]: string }) => void;
}

/** The settings of the plugin, which Headlamp stores in the browser. */
export function SettingsForm({ data, onDataChange }: Props) {
  const wrong = mistakes(settingsOf(data));
  return (
    <Box
      sx={{
        display: "flex",
        flexDirection: "column",
        gap: 2,
        maxWidth: 640,
        pt: 1,
      }}
    >
      <Typography variant="body2" color="text.secondary">
        These settings apply to all clusters.
      </Typography>
      {fields.map(({ name, label, help }) => {
        const value = data?.[name];
        return (
          <TextField
            key={name}
            label={label}
            value={typeof value === "string" ? value : ""}
            placeholder={defaults[name]}
            error={wrong[name] !== undefined}
            helperText={wrong[name] ?? help}
            inputProps={{
              maxLength: 2048,
              spellCheck: false,
              autoCapitalize: "off",
            }}
            InputLabelProps={{ shrink: true }}
            onChange={(event) =>
              onDataChange?.({
                ...(data as Record<string, string>),
                [name]: event.target.value,
              })
            }
          />
        );
      })}
    </Box>
  );
}
