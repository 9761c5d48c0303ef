// Checks dashboards against Grafana's own types: node check-schema.mjs DASHBOARD.json...
// Needs the npm packages @grafana/schema, ts-json-schema-generator and ajv beside it.
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import Ajv from "ajv";
import { createGenerator } from "ts-json-schema-generator";

const here = path.dirname(fileURLToPath(import.meta.url));
const types = path.join(here, "node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen.d.ts");
const schema = createGenerator({ path: types, type: "Dashboard", skipTypeCheck: true }).createSchema("Dashboard");
const validate = new Ajv({ strict: false, allErrors: true }).compile(schema);
let wrong = 0;
for (const file of process.argv.slice(2)) {
  if (!validate(JSON.parse(fs.readFileSync(file, "utf8")))) {
    for (const { instancePath, message, params } of validate.errors) {
      console.log(`${file}: ${instancePath}: ${message} ${JSON.stringify(params)}`);
      wrong = 1;
    }
  }
}
process.exit(wrong);
