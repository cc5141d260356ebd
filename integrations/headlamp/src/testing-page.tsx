import { lightTheme } from "@kinvolk/headlamp-plugin/lib/components/App/defaultAppThemes";
import { createMuiTheme } from "@kinvolk/headlamp-plugin/lib/lib/themes";
import store from "@kinvolk/headlamp-plugin/lib/redux/stores/store";
import { ThemeProvider } from "@mui/material";
import type { ReactNode } from "react";
import { Provider } from "react-redux";
import { MemoryRouter } from "react-router-dom";

const theme = createMuiTheme(lightTheme);

/** What surrounds a section on a page of Headlamp, for tests. */
export const Page = ({ children }: { children: ReactNode }) => (
  <Provider store={store}>
    <ThemeProvider theme={theme}>
      <MemoryRouter>{children}</MemoryRouter>
    </ThemeProvider>
  </Provider>
);
