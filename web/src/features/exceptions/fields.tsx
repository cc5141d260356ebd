import { useId, type ReactNode } from "react";
import { DayInput } from "@/components/ui/day-input";
import { Select, type Option } from "@/components/ui/select";
import { ToggleButton } from "@/components/ui/toggle-button";
import type { ExceptionSpecStatus } from "@/gen/model";
import { dayOf } from "@/lib/day";
import { plural } from "@/lib/format";
import { cn } from "@/lib/cn";
import { visible } from "@/lib/text";
import { justificationOf, statuses } from "./decision";
import { day, kindOf, maxComment, type Draft, type Reach } from "./draft";

export interface Props {
  draft: Draft;
  update: (change: Partial<Draft>) => void;
}

export function Field({
  label,
  hint,
  error,
  children,
}: {
  label: string;
  hint?: ReactNode;
  error?: string;
  children: (ids: { label: string; hint: string }) => ReactNode;
}) {
  const id = useId();
  const ids = { label: `${id}-label`, hint: `${id}-hint` };
  return (
    <div className="space-y-1">
      <p id={ids.label} className="text-[13px] font-medium">
        {label}
      </p>
      {children(ids)}
      <p id={ids.hint} className={cn("text-xs", error ? "text-danger" : "text-muted")}>
        {error ?? hint}
      </p>
    </div>
  );
}

const statusHints: Record<ExceptionSpecStatus, string> = {
  NotAffected: "The vulnerability cannot be exploited here.",
  FalsePositive: "The package does not have the vulnerability.",
  AcceptedRisk: "The finding is real, and is not fixed for now.",
  UnderInvestigation: "Not decided yet. The findings continue to count and show the comment.",
  Fixed: "The package contains the fix, although its version does not show it.",
};

const statusOptions = (Object.keys(statusHints) as ExceptionSpecStatus[]).map((value) => ({
  value,
  label: statuses[value],
}));

const justifications = [
  "component_not_present",
  "vulnerable_code_not_present",
  "vulnerable_code_not_in_execute_path",
  "vulnerable_code_cannot_be_controlled_by_adversary",
  "inline_mitigations_already_exist",
] as const;

const justificationOptions: Option<Draft["justification"]>[] = [
  { value: "", label: "None" },
  ...justifications.map((value) => ({ value, label: justificationOf({ justification: value }) })),
];

/** What is decided, and why. */
export function StatusFields({ draft, update, error }: Props & { error?: string }) {
  return (
    <>
      <Field label="Decision" hint={statusHints[draft.status]}>
        {() => (
          <Select
            label="Status"
            options={statusOptions}
            value={draft.status}
            onChange={(status) => update({ status })}
            className="w-full sm:w-80"
          />
        )}
      </Field>
      {draft.status === "NotAffected" && (
        <Field label="Justification" hint="In the terms of VEX.">
          {() => (
            <Select
              label="Justification"
              options={justificationOptions}
              value={draft.justification}
              onChange={(justification) => update({ justification })}
              className="w-full"
            />
          )}
        </Field>
      )}
      <Field label="Comment" hint="Everybody who sees the findings can read it." error={error}>
        {({ label, hint }) => (
          <textarea
            aria-labelledby={label}
            aria-describedby={hint}
            aria-invalid={error !== undefined}
            rows={3}
            maxLength={maxComment}
            value={draft.comment}
            onChange={({ target }) => update({ comment: target.value })}
            className="block w-full rounded-md border border-line-strong bg-surface px-3 py-2 text-sm text-ink placeholder:text-muted"
          />
        )}
      </Field>
    </>
  );
}

const presets = [30, 90, 180, 365];

/** Until when it applies. */
export function EndFields({ draft, update, now }: Props & { now: number }) {
  const ends = presets.map((days) => ({
    value: dayOf(now + days * day),
    label: `In ${plural(days, "day")}`,
  }));
  const chosen = ends.find(({ value }) => value === draft.end)?.value ?? (draft.end ? "date" : "never");
  return (
    <Field
      label="Ends"
      hint={
        draft.end ? "From this day on, in UTC, the findings count again." : "It applies until a user ends it."
      }
    >
      {() => (
        <div className="flex flex-wrap gap-2">
          <Select
            label="Ends"
            options={[...ends, { value: "date", label: "On a date" }, { value: "never", label: "Never" }]}
            value={chosen}
            onChange={(next) =>
              update({ end: next === "never" ? "" : next === "date" ? dayOf(now + day) : next })
            }
          />
          {chosen !== "never" && (
            <DayInput label="Date" value={draft.end} max="9999-12-31" onChange={(end) => update({ end })} />
          )}
          <ToggleButton
            pressed={draft.expireWhenFixed}
            onChange={(expireWhenFixed) => update({ expireWhenFixed })}
          >
            Until a fix exists
          </ToggleButton>
        </div>
      )}
    </Field>
  );
}

const maxListed = 5;

function Names({ label, names }: { label: string; names: string[] }) {
  if (names.length === 0) return null;
  return (
    <p className="untrusted text-xs text-muted">
      {label}: <span className="font-mono">{names.slice(0, maxListed).map(visible).join(", ")}</span>
      {names.length > maxListed && ` and ${names.length - maxListed} more`}
    </p>
  );
}

/** Which findings it matches. */
export function ReachFields({
  draft,
  update,
  match,
}: Props & { match: { vulnerabilities?: string[]; packages?: string[]; images?: string[] } }) {
  const { vulnerabilities, packages } = draft;
  const these = vulnerabilities.length > 1 ? "These vulnerabilities" : "This vulnerability";
  const pkgs = packages.length > 1 ? "these packages" : "this package";
  const options: Option<Reach>[] =
    packages.length === 0
      ? [{ value: "allPackages", label: `${these} in all packages` }]
      : [
          { value: "versions", label: `${these} in the versions found of ${pkgs}` },
          { value: "allVersions", label: `${these} in all versions of ${pkgs}` },
          { value: "allPackages", label: `${these} in all packages` },
          { value: "allVulnerabilities", label: `All vulnerabilities in the versions found of ${pkgs}` },
        ];
  return (
    <Field
      label="Matches"
      hint={
        match.vulnerabilities &&
        match.vulnerabilities.length > 1 &&
        match.packages &&
        match.packages.length > 1
          ? "Each of the vulnerabilities in each of the packages."
          : undefined
      }
    >
      {() => (
        <div className="space-y-1">
          {vulnerabilities.length > 0 && (
            <Select
              label="Matches"
              options={options}
              value={draft.reach}
              onChange={(reach) => update({ reach })}
              className="w-full"
            />
          )}
          {draft.images.length > 0 && (
            <Select
              label="Images"
              options={[
                { value: "all", label: "All images" },
                { value: "some", label: draft.images.length > 1 ? "These images only" : "This image only" },
              ]}
              value={draft.someImages ? "some" : "all"}
              onChange={(images) => update({ someImages: images === "some" })}
              className="w-full"
            />
          )}
          <Names label="Vulnerabilities" names={match.vulnerabilities ?? []} />
          <Names label="Packages" names={match.packages ?? []} />
          <Names label="Images" names={match.images ?? []} />
        </div>
      )}
    </Field>
  );
}

/** How the object is named, and whether it takes effect. */
export function ObjectFields({ draft, update, error, fixed }: Props & { error?: string; fixed: boolean }) {
  return (
    <Field label="Name" hint={`Of the ${kindOf(draft)}.`} error={error}>
      {({ label, hint }) => (
        <div className="flex flex-wrap gap-2">
          <input
            type="text"
            aria-labelledby={label}
            aria-describedby={hint}
            aria-invalid={error !== undefined}
            maxLength={253}
            autoComplete="off"
            autoCapitalize="off"
            spellCheck={false}
            readOnly={fixed}
            value={draft.name}
            onChange={({ target }) => update({ name: target.value })}
            className="h-9 min-w-0 flex-1 rounded-md border border-line-strong bg-surface px-3 font-mono text-xs text-ink read-only:text-muted"
          />
          <ToggleButton pressed={draft.dryRun} onChange={(dryRun) => update({ dryRun })}>
            Dry run
          </ToggleButton>
        </div>
      )}
    </Field>
  );
}
