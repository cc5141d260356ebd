import { Select, type Option } from "@/components/ui/select";
import { groups, type Group } from "./filters";

const options: Option<Group>[] = [
  { value: groups.images, label: "None" },
  { value: groups.bases, label: "Base image" },
];

/** What the images are grouped by. */
export function GroupSelect({ value, onChange }: { value: Group; onChange: (group: Group) => void }) {
  return (
    <Select
      label="Group by"
      options={options}
      value={value}
      active={value !== groups.images}
      onChange={onChange}
    />
  );
}
