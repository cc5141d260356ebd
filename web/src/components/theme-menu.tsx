import { Check } from "lucide-react";
import {
  Menu,
  MenuContent,
  MenuRadioGroup,
  MenuRadioIndicator,
  MenuRadioItem,
  MenuTrigger,
} from "@/components/ui/menu";
import type { TriggerProps } from "@/components/ui/on-demand";
import { setTheme, useTheme, type Theme } from "@/lib/theme";
import { themes } from "./themes";

export default function ThemeMenu({ trigger }: { trigger: TriggerProps }) {
  const theme = useTheme();
  return (
    <Menu modal={false} defaultOpen>
      <MenuTrigger {...trigger} />
      <MenuContent>
        <MenuRadioGroup value={theme} onValueChange={(value: Theme) => setTheme(value)}>
          {themes.map(({ value, label, icon: ItemIcon }) => (
            <MenuRadioItem key={value} value={value}>
              <ItemIcon aria-hidden />
              {label}
              <MenuRadioIndicator className="ml-auto flex">
                <Check aria-hidden />
              </MenuRadioIndicator>
            </MenuRadioItem>
          ))}
        </MenuRadioGroup>
      </MenuContent>
    </Menu>
  );
}
