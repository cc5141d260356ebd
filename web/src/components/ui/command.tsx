import { Autocomplete as Base } from "@base-ui/react/autocomplete";
import { Dialog } from "@base-ui/react/dialog";
import { Search } from "lucide-react";
import { useEffect, useRef, type ReactNode } from "react";

interface Group<Item> {
  value: string;
  items: Item[];
}

interface Props<Item> {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  placeholder: string;
  maxLength: number;
  text: string;
  onTextChange: (text: string) => void;
  groups: Group<Item>[];
  itemKey: (item: Item) => string;
  /** Items that are shown and cannot be chosen. */
  isDisabled: (item: Item) => boolean;
  renderItem: (item: Item) => ReactNode;
  onChoose: (item: Item) => void;
  /** What is said in place of items, and announced. */
  status: ReactNode;
}

/** A dialog with a field and a list below it, which the arrow keys go through and Enter chooses from. */
export function Command<Item>({
  groups,
  itemKey,
  isDisabled,
  renderItem,
  onChoose,
  status,
  ...props
}: Props<Item>) {
  const input = useRef<HTMLInputElement>(null);
  // A dialog that is opened again while it closes has kept the focus.
  useEffect(() => {
    if (props.open) input.current?.select();
  }, [props.open]);
  return (
    <Dialog.Root open={props.open} onOpenChange={props.onOpenChange}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-black/45 transition-opacity duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0" />
        <Dialog.Popup className="fixed top-[12vh] left-1/2 z-50 flex max-h-[76dvh] w-[min(40rem,calc(100vw-2rem))] -translate-x-1/2 flex-col overflow-hidden rounded-xl border border-line bg-raised shadow-pop transition-opacity duration-150 outline-none data-ending-style:opacity-0 data-starting-style:opacity-0">
          <Dialog.Title className="sr-only">{props.title}</Dialog.Title>
          <Base.Root
            open
            inline
            mode="none"
            autoHighlight="always"
            keepHighlight
            items={groups}
            itemToStringValue={itemKey}
            value={props.text}
            onValueChange={(text, { reason }) => {
              if (reason !== "item-press") props.onTextChange(text);
            }}
          >
            <div className="relative border-b border-line">
              <Search
                aria-hidden
                className="pointer-events-none absolute top-1/2 left-4 size-4 -translate-y-1/2 text-muted"
              />
              <Base.Input
                ref={input}
                aria-label={props.title}
                placeholder={props.placeholder}
                maxLength={props.maxLength}
                autoComplete="off"
                spellCheck={false}
                // What was typed before stays to be read, and the next key replaces it.
                onFocus={({ currentTarget }) => currentTarget.select()}
                className="h-12 w-full bg-transparent pr-4 pl-11 text-base text-ink outline-none placeholder:text-muted"
              />
            </div>
            <Base.Status className="px-4 text-sm text-muted not-empty:py-4">{status}</Base.Status>
            <Base.List className="min-h-0 flex-1 overflow-y-auto p-2 empty:p-0" aria-label="Results">
              {(group: Group<Item>) => (
                <Base.Group key={group.value} items={group.items} className="not-first:mt-2">
                  <Base.GroupLabel className="px-2 py-1 text-xs font-semibold text-muted">
                    {group.value}
                  </Base.GroupLabel>
                  <Base.Collection>
                    {(item: Item) => (
                      <Base.Item
                        key={itemKey(item)}
                        value={item}
                        disabled={isDisabled(item)}
                        onClick={() => onChoose(item)}
                        className="flex cursor-pointer flex-wrap items-baseline gap-x-3 rounded-md px-2 py-1.5 text-sm text-ink outline-none data-disabled:opacity-55 data-highlighted:bg-subtle"
                      >
                        {renderItem(item)}
                      </Base.Item>
                    )}
                  </Base.Collection>
                </Base.Group>
              )}
            </Base.List>
          </Base.Root>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
