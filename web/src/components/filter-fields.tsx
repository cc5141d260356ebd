import { X } from "lucide-react";
import { Button } from "@/components/ui/button";
import { Select, type Option } from "@/components/ui/select";
import { TextFilter } from "@/components/ui/text-filter";
import { ToggleButton } from "@/components/ui/toggle-button";
import type { Severity } from "@/gen/model";
import { useHasOwners } from "@/lib/owners";

type Minimum = Severity | "all";

const minimumOptions: Option<Minimum>[] = [
  { value: "all", label: "Any" },
  { value: "Critical", label: "Critical" },
  { value: "High", label: "High or worse" },
  { value: "Medium", label: "Medium or worse" },
  { value: "Low", label: "Low or worse" },
  { value: "Negligible", label: "Negligible or worse" },
  { value: "Unknown", label: "Unknown or worse" },
];

interface Props<Value> {
  value: Value;
  onChange: (value: Value) => void;
}

export function SeverityFilter({ value, onChange }: Props<Severity | undefined>) {
  return (
    <Select
      label="Severity"
      options={minimumOptions}
      value={value ?? "all"}
      active={value !== undefined}
      onChange={(next) => onChange(next === "all" ? undefined : next)}
    />
  );
}

export function FixableFilter({ value, onChange }: Props<boolean>) {
  return (
    <ToggleButton pressed={value} onChange={onChange}>
      Fixable
    </ToggleButton>
  );
}

export function KevFilter({ value, onChange }: Props<boolean>) {
  return (
    <ToggleButton pressed={value} onChange={onChange}>
      Known exploited
    </ToggleButton>
  );
}

export function OverdueFilter({ value, onChange }: Props<boolean>) {
  return (
    <ToggleButton pressed={value} onChange={onChange}>
      Overdue
    </ToggleButton>
  );
}

/** The probability of exploitation, from 0 to 1. */
export function EPSSFilter({ value, onChange }: Props<number | undefined>) {
  const steps = [0.01, 0.1, 0.5, 0.9];
  const shown = value === undefined || steps.includes(value) ? steps : [...steps, value].sort();
  return (
    <Select
      label="EPSS"
      options={[
        { value: "all", label: "Any" },
        ...shown.map((step) => ({ value: String(step), label: `${Math.round(step * 1000) / 10}% or more` })),
      ]}
      value={value === undefined ? "all" : String(value)}
      active={value !== undefined}
      onChange={(next) => onChange(next === "all" ? undefined : Number(next))}
    />
  );
}

/** A number of days: one of the steps, or what the address says. */
export function DaysFilter({
  label,
  steps,
  other,
  value,
  onChange,
}: Props<number | undefined> & {
  label: string;
  steps: Record<number, string>;
  other: (days: number) => string;
}) {
  const shown = value === undefined ? steps : { [value]: other(value), ...steps };
  return (
    <Select
      label={label}
      options={[
        { value: "all", label: "Any" },
        ...Object.entries(shown).map(([days, name]) => ({ value: days, label: name })),
      ]}
      value={value === undefined ? "all" : String(value)}
      active={value !== undefined}
      onChange={(next) => onChange(next === "all" ? undefined : Number(next))}
    />
  );
}

export function NamespaceFilter({ value, onChange }: Props<string>) {
  return (
    <TextFilter
      label="Namespace"
      placeholder="Namespace"
      value={value}
      maxLength={253}
      onChange={onChange}
      className="w-36"
    />
  );
}

/** The whole name of an owner; absent where no workload has one. */
export function OwnerFilter({ value, onChange }: Props<string>) {
  const hasOwners = useHasOwners();
  if (!hasOwners && value === "") return null;
  return (
    <TextFilter
      label="Owner"
      placeholder="Owner"
      value={value}
      maxLength={253}
      onChange={onChange}
      className="w-32"
    />
  );
}

/** States that only what has no owner is listed, and lists the rest again. */
export function WithoutOwner({ what, onClear }: { what: string; onClear: () => void }) {
  return (
    <Button
      onClick={onClear}
      aria-label={`Show ${what} with any owner`}
      className="border-accent bg-accent-soft"
    >
      Without an owner
      <X aria-hidden />
    </Button>
  );
}

/** Only what no owner is known of; absent where no workload has one. */
export function NoOwnerFilter({ value, onChange }: Props<boolean>) {
  const hasOwners = useHasOwners();
  if (!hasOwners && !value) return null;
  return (
    <ToggleButton pressed={value} onChange={onChange}>
      Without an owner
    </ToggleButton>
  );
}
