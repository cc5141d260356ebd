import { Columns3 } from "lucide-react";
import { useMediaQuery } from "@/lib/use-media-query";
import { Menu, MenuCheckboxItem, MenuContent, MenuItem, MenuSeparator, MenuTrigger } from "./menu";

/** A column that can be chosen. */
export interface ColumnChoice<Name extends string> {
  name: Name;
  label: string;
}

interface Props<Name extends string> {
  choices: readonly ColumnChoice<Name>[];
  /** The column that is shown in any case. */
  always: Name;
  shown: readonly Name[];
  /** Undefined stands for the default. */
  onChange: (shown: Name[] | undefined) => void;
}

/** Chooses the columns of a table. Cards on a narrow screen have none. */
export function ColumnsMenu<Name extends string>({ choices, always, shown, onChange }: Props<Name>) {
  const cards = useMediaQuery("(max-width: 1023px)");
  if (cards) return null;
  return (
    <Menu modal={false}>
      <MenuTrigger>
        <Columns3 aria-hidden />
        Columns
      </MenuTrigger>
      <MenuContent>
        {choices.map(({ name, label }) => (
          <MenuCheckboxItem
            key={name}
            checked={shown.includes(name)}
            onCheckedChange={(checked) =>
              onChange([always, ...(checked ? [...shown, name] : shown.filter((other) => other !== name))])
            }
          >
            {label}
          </MenuCheckboxItem>
        ))}
        <MenuSeparator />
        <MenuItem onClick={() => onChange(undefined)}>Reset to default</MenuItem>
      </MenuContent>
    </Menu>
  );
}
