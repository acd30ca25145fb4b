package giveway.yarn;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * The handshake: both ends prove that they know the token, and neither sends it. The sidecar proves itself first, so whoever has taken its port learns
 * nothing and is not obeyed. A proof is valid for one address: it cannot be relayed to the sidecar at another one. The same is in handshake.rs.
 */
final class Handshake {
  static final int NONCE_BYTES = 32;
  private static final int PROOF_BYTES = 32;
  private static final String HMAC = "HmacSHA256";
  private static final SecureRandom RANDOM = new SecureRandom();

  /** Who proves that it knows the token. */
  enum Role {
    SIDECAR("giveway sidecar"),
    PLUGIN("giveway plug-in");

    private final byte[] label;

    Role(String label) {
      this.label = label.getBytes(StandardCharsets.US_ASCII);
    }
  }

  private Handshake() {}

  /** Proves both ends of a connection to the sidecar at this address. Returns its WELCOME after the version. Fails if the peer does not know the token. */
  static Frame.FieldReader perform(DataInputStream in, OutputStream out, byte[] token, InetSocketAddress sidecar, boolean refusesNodes) throws IOException {
    byte[] own = new byte[NONCE_BYTES];
    RANDOM.nextBytes(own);
    Frame.write(out, Frame.of(Frame.HELLO).ascii("GIVEWAY").integer(2, Frame.VERSION).bytes(own).content());
    out.flush();
    Frame.FieldReader challenge = read(in, Frame.CHALLENGE);
    byte[] nonce = challenge.bytes(NONCE_BYTES);
    byte[] expected = proof(token, Role.SIDECAR, own, nonce, sidecar);
    // Takes the same time wherever the two differ.
    if (!MessageDigest.isEqual(expected, challenge.bytes(PROOF_BYTES))) {
      throw new IOException("token mismatch: either giveway.token.file and --token-file differ, or this is not the sidecar but another program on its port");
    }
    byte[] proof = proof(token, Role.PLUGIN, own, nonce, sidecar);
    Frame.write(out, Frame.of(Frame.PROOF).bytes(proof).integer(1, refusesNodes ? 1 : 0).content());
    out.flush();
    Frame.FieldReader welcome = read(in, Frame.WELCOME);
    checkVersion(welcome.integer(2));
    return welcome;
  }

  /** The proof of an end of a connection to the sidecar at this address. */
  static byte[] proof(byte[] token, Role role, byte[] pluginNonce, byte[] sidecarNonce, InetSocketAddress sidecar) throws IOException {
    try {
      Mac mac = Mac.getInstance(HMAC);
      mac.init(new SecretKeySpec(token, HMAC));
      mac.update(role.label);
      mac.update(pluginNonce);
      mac.update(sidecarNonce);
      mac.update(new byte[] {(byte) (sidecar.getPort() >>> 8), (byte) sidecar.getPort()});
      mac.update(sidecar.getAddress().getAddress());
      return mac.doFinal();
    } catch (GeneralSecurityException | IllegalArgumentException e) {
      throw new IOException("cannot use the token: " + e.getMessage() + "; check giveway.token.file", e);
    }
  }

  private static Frame.FieldReader read(DataInputStream in, char expected) throws IOException {
    byte[] content = Frame.read(in, Frame.UNPROVED_BYTES_MAX);
    if (content == null) {
      throw new EOFException();
    }
    Frame.FieldReader fields = new Frame.FieldReader(content);
    if (fields.type() == Frame.REJECTED) {
      // Whoever it is, it does not write lines of its own into the log.
      throw new IOException("rejected by the sidecar: " + fields.string().replaceAll("\\p{Cntrl}", "?"));
    }
    if (fields.type() == Frame.WELCOME && expected != Frame.WELCOME) {
      // An older sidecar rejects the version instead.
      throw new IOException("the peer did not prove that it is the sidecar");
    }
    if (fields.type() != expected) {
      throw new IOException("invalid handshake: unexpected frame of type `" + fields.type() + "`");
    }
    return fields;
  }

  private static void checkVersion(long version) throws IOException {
    if (version != Frame.VERSION) {
      throw new IOException("protocol version mismatch: sidecar " + version + ", plug-in " + Frame.VERSION + "; install the same release of both");
    }
  }
}
