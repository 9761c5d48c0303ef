// Every pool takes a session lock, gives the connection back, and goes on. Then a line of JSON says which pools there
// are, and all of them live until the process is killed. PGHOST and PGPORT say where.
import { readFileSync } from "node:fs";
import knex from "knex";
import pg from "pg";
import postgres from "postgres";

const connection = (application_name) => ({
  host: process.env.PGHOST,
  port: Number(process.env.PGPORT),
  user: "postgres",
  database: "postgres",
  application_name,
});
const version = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;
const tried = [];
const note = (application, ...packages) =>
  tried.push({ application, versions: Object.fromEntries(packages.map((name) => [name, version(name)])) });

const pool = new pg.Pool({ ...connection("node pg"), max: 1, idleTimeoutMillis: 0 });
await pool.query("SELECT pg_advisory_lock(1)");
await pool.query("SELECT 'something else'");
note("node pg", "pg");

const { application_name, user, ...server } = connection("postgres.js");
const sql = postgres({ ...server, username: user, max: 1, connection: { application_name } });
await sql`SELECT pg_advisory_lock(2)`;
await sql`SELECT 'something else'`;
note("postgres.js", "postgres");

const db = knex({ client: "pg", connection: connection("knex"), pool: { min: 1, max: 1 } });
await db.raw("SELECT pg_advisory_lock(3)");
await db.raw("SELECT 'something else'");
note("knex", "knex", "pg");

// It closes what has been idle for a moment, and the lock goes with it.
const brief = new pg.Pool({ ...connection("node pg with idleTimeoutMillis"), max: 1, idleTimeoutMillis: 100 });
await brief.query("SELECT pg_advisory_lock(4)");
await new Promise((resolve) => brief.once("remove", resolve));
note("node pg with idleTimeoutMillis", "pg");

console.log(JSON.stringify(tried));
setInterval(() => {}, 60_000);
