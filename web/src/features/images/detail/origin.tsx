import { Select, type Option } from "@/components/ui/select";
import { Origin } from "@/gen/model";

const options: Option<Origin | "all">[] = [
  { value: "all", label: "Any" },
  { value: Origin.base, label: "Base image" },
  { value: Origin.image, label: "This image" },
];

/** Whether packages come from the base image. */
export function OriginFilter({
  value,
  onChange,
}: {
  value: Origin | undefined;
  onChange: (origin: Origin | undefined) => void;
}) {
  return (
    <Select
      label="From"
      options={options}
      value={value ?? "all"}
      active={value !== undefined}
      onChange={(origin) => onChange(origin === "all" ? undefined : origin)}
    />
  );
}

/** Where a layer or a package comes from; nothing if that is not known. */
export function OriginMark({ origin }: { origin: Origin | undefined }) {
  if (origin === Origin.base)
    return (
      <span className="inline-flex h-5 shrink-0 items-center rounded border border-line-strong px-1.5 text-xs">
        Base image
      </span>
    );
  return origin ? <span className="shrink-0 text-xs text-muted">This image</span> : null;
}
