import { GroupSelect } from "@/components/group-select";
import { groups, type Group } from "./filters";

const offered = [groups.owners, groups.namespaces, groups.bases];

/** What the images are grouped by. */
export const ImageGroupSelect = (props: { value: Group; onChange: (group: Group) => void }) => (
  <GroupSelect none={groups.images} groups={offered} {...props} />
);
