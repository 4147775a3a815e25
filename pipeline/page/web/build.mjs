// Bundles the page into the folder that is named on the command line.
import { build } from "esbuild";
import { copyFileSync } from "node:fs";
import { join } from "node:path";

const out = process.argv[2] ?? "static";
await build({
  entryPoints: { app: "src/main.ts" },
  bundle: true,
  minify: true,
  target: "es2022",
  format: "esm",
  legalComments: "none",
  outdir: out,
});
for (const name of ["index.html", "favicon.svg"]) copyFileSync(name, join(out, name));
copyFileSync("node_modules/uplot/LICENSE", join(out, "uplot-license.txt"));
