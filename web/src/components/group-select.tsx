import { Select } from "@/components/ui/select";
import { useHasOwners } from "@/lib/owners";

const names = { owners: "Owner", namespaces: "Namespace", bases: "Base image" };
type Name = keyof typeof names;

/** What the rows of a list are grouped by: none stands for the rows themselves. */
export function GroupSelect<None extends string, Group extends Name>({
  none,
  groups,
  value,
  onChange,
}: {
  none: None;
  groups: readonly Group[];
  value: None | Group;
  onChange: (group: None | Group) => void;
}) {
  const hasOwners = useHasOwners();
  const offered = groups.filter((group) => group !== "owners" || hasOwners || value === "owners");
  return (
    <Select<None | Group>
      label="Group by"
      options={[
        { value: none, label: "None" },
        ...offered.map((group) => ({ value: group, label: names[group] })),
      ]}
      value={value}
      active={value !== none}
      onChange={onChange}
    />
  );
}
