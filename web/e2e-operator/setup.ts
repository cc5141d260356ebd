/** What internal/setup/setuptest/decisions prepares. */
interface Setup {
  /** Where the operator is reached. */
  url: string;
  /** A token of a user who may read results and write exceptions. */
  token: string;
  /** An image with the vulnerability. */
  image: string;
  vulnerability: string;
}

const json = process.env.OPERATOR_SETUP;
if (!json) throw new Error("OPERATOR_SETUP is missing: these tests are run by internal/setup");

export const setup = JSON.parse(json) as Setup;
