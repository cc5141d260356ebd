import { useId } from "react";
import { Select, type Option } from "@/components/ui/select";
import { useSession } from "@/features/session/session";
import { withEntered, type missingPlace, type Where } from "./draft";
import { Field, type Props } from "./fields";

const places: Option<Where>[] = [
  { value: "cluster", label: "The whole cluster" },
  { value: "namespace", label: "One namespace" },
  { value: "namespaces", label: "Namespaces with labels" },
];

const hints: Record<Where, string> = {
  cluster: "The findings no longer count in any namespace.",
  namespace: "Findings in images that other namespaces run, too, continue to count there.",
  namespaces: "Findings in images that other namespaces run, too, continue to count there.",
};

interface TextProps {
  label: string;
  hint: string;
  placeholder?: string;
  value: string;
  onChange: (value: string) => void;
  error?: string;
  readOnly?: boolean;
  maxLength: number;
  options?: string[];
}

function TextField({ label, hint, error, value, onChange, options, ...input }: TextProps) {
  const list = useId();
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <>
          <input
            type="text"
            aria-labelledby={ids.label}
            aria-describedby={ids.hint}
            aria-invalid={error !== undefined}
            autoComplete="off"
            autoCapitalize="off"
            spellCheck={false}
            value={value}
            onChange={({ target }) => onChange(target.value)}
            list={options && list}
            className="h-9 w-full rounded-md border border-line-strong bg-surface px-3 font-mono text-xs text-ink placeholder:text-muted read-only:text-muted"
            {...input}
          />
          {options && (
            <datalist id={list}>
              {options.map((option) => (
                <option key={option} value={option} />
              ))}
            </datalist>
          )}
        </>
      )}
    </Field>
  );
}

const maxSelector = 4096;

/** Which vulnerabilities it is about, if it begins with images. */
export function VulnerabilitiesField({ draft, update, error }: Props & { error?: string }) {
  return (
    <TextField
      label="Vulnerabilities"
      hint="IDs with spaces between them."
      placeholder="CVE-2021-44228"
      value={draft.entered ?? ""}
      onChange={(entered) => update(withEntered(draft, entered))}
      error={error}
      maxLength={maxSelector}
    />
  );
}

/** In which namespaces and for which workloads it applies. */
export function PlaceFields({
  draft,
  update,
  errors,
  tried,
  fixed,
}: Props & { errors: ReturnType<typeof missingPlace>; tried: boolean; fixed: boolean }) {
  const names = useSession()?.namespaces?.names;
  const { where } = draft;
  // The namespace of an object that exists cannot change.
  const options = fixed
    ? places.filter(({ value }) => (value === "namespace") === (where === "namespace"))
    : places;
  return (
    <>
      <Field label="Applies in" hint={hints[where]}>
        {() => (
          <Select
            label="Applies in"
            options={options}
            value={where}
            onChange={(chosen) => update({ where: chosen })}
            className="w-full"
          />
        )}
      </Field>
      {where === "namespace" && (
        <TextField
          label="Namespace"
          hint="Of the VulnerabilityException."
          value={draft.namespace}
          onChange={(namespace) => update({ namespace })}
          error={tried || draft.namespace ? errors.namespace : undefined}
          readOnly={fixed}
          maxLength={63}
          options={names}
        />
      )}
      {where === "namespaces" && (
        <TextField
          label="Labels of namespaces"
          hint="Empty: all namespaces."
          placeholder="team=shop"
          value={draft.namespaceLabels}
          onChange={(namespaceLabels) => update({ namespaceLabels })}
          error={errors.namespaceLabels}
          maxLength={maxSelector}
        />
      )}
      <TextField
        label="Labels of workloads"
        hint="Of all pods of a workload. Empty: all workloads, and images that no workload runs any more."
        placeholder="app=web,tier in (a,b)"
        value={draft.workloadLabels}
        onChange={(workloadLabels) => update({ workloadLabels })}
        error={errors.workloadLabels}
        maxLength={maxSelector}
      />
    </>
  );
}
