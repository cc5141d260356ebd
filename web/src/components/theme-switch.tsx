import { Check, Monitor, Moon, Sun, type LucideIcon } from "lucide-react";
import {
  Menu,
  MenuContent,
  MenuRadioGroup,
  MenuRadioIndicator,
  MenuRadioItem,
  MenuTrigger,
} from "@/components/ui/menu";
import { setTheme, useTheme, type Theme } from "@/lib/theme";

const themes: { value: Theme; label: string; icon: LucideIcon }[] = [
  { value: "light", label: "Light", icon: Sun },
  { value: "dark", label: "Dark", icon: Moon },
  { value: "system", label: "System", icon: Monitor },
];

export function ThemeSwitch() {
  const theme = useTheme();
  const current = themes.find(({ value }) => value === theme);
  const Icon = current?.icon ?? Monitor;
  return (
    <Menu modal={false}>
      <MenuTrigger variant="ghost" size="icon" aria-label={`Theme: ${current?.label ?? ""}`} title="Theme">
        <Icon aria-hidden />
      </MenuTrigger>
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
