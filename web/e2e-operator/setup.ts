/** What internal/setup/setuptest/decisions prepares. */
interface Setup {
  /** Where the operator is reached. */
  url: string;
  /** A token of a user who may read results and write exceptions. */
  token: string;
  /** An image with the vulnerability. */
  image: string;
  vulnerability: string;
  /** Fills the cluster, which is empty before, and answers when all is matched. */
  fill: string;
  /** An owner of workloads. The image has the version of a package to which this team should update first. */
  team: string;
}

const json = process.env.OPERATOR_SETUP;
if (!json) throw new Error("OPERATOR_SETUP is missing: these tests are run by internal/setup");

export const setup = JSON.parse(json) as Setup;
