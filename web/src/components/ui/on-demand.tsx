import { startTransition, Suspense, useState, type ComponentProps, type ReactNode } from "react";
import { Button, type ButtonVariants } from "./button";

export type TriggerProps = ComponentProps<"button"> & ButtonVariants;

interface Props {
  /** What the button opens. */
  popup: "menu" | "dialog";
  /** Loads the children. */
  load: () => Promise<unknown>;
  trigger: TriggerProps;
  /** A lazy component, which renders a trigger that looks the same and opens at once. */
  children: ReactNode;
}

/** A button whose popup is loaded when somebody is about to use it: most visits need none of those in the header. */
export function OnDemand({ popup, load, trigger, children }: Props) {
  const [wanted, setWanted] = useState(false);
  // The button stays until the popup is there.
  const open = () => startTransition(() => setWanted(true));
  const button = (
    <Button
      {...trigger}
      aria-haspopup={popup}
      aria-expanded={false}
      onPointerEnter={() => void load()}
      onFocus={() => void load()}
      onClick={open}
      onKeyDown={({ key }) => {
        if (popup === "menu" && (key === "ArrowDown" || key === "ArrowUp")) open();
      }}
    />
  );
  return <Suspense fallback={button}>{wanted ? children : button}</Suspense>;
}
