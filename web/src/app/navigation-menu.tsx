import { Check } from "lucide-react";
import { Link } from "react-router";
import { Menu, MenuContent, MenuItem, MenuTrigger } from "@/components/ui/menu";
import type { TriggerProps } from "@/components/ui/on-demand";
import { pages } from "./pages";

export default function NavigationMenu({
  trigger,
  current,
}: {
  trigger: TriggerProps;
  current: string | undefined;
}) {
  return (
    <Menu modal={false} defaultOpen>
      <MenuTrigger {...trigger} />
      <MenuContent align="start">
        {pages.map(({ to, label }) => (
          <MenuItem
            key={to}
            closeOnClick
            render={<Link to={to} aria-current={to === current ? "page" : undefined} />}
          >
            {label}
            {to === current && <Check className="ml-auto" aria-hidden />}
          </MenuItem>
        ))}
      </MenuContent>
    </Menu>
  );
}
